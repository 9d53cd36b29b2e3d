"""The policy: it decides on a shell text, command by command."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..._exceptions import PolicyError
from ..characters import visible
from ..presets import PRESETS, read
from . import loading
from .cmdlets import Cmdlets, cmdlets_of
from .decision import Decision
from .facts import LocalFacts
from .loading import LARGEST_FILE, Rule, RuleFile
from .patterns import ANYTHING
from .trust import administrator_rules, remember, remembered, user_files, user_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..._types import ShellKind, Variables
    from ...reach import Reach
    from ..parse.parsed import Parsed
    from .facts import HostFacts
    from .profiles import Profile
    from .verdict import Action, Verdict


INSTALL = "python -m pip install 'anyshell[policy]', or '.[policy]' in a clone"


@dataclass(frozen=True)
class Policy:
    """Rules in layers, and profiles that say what the words of programs mean. `load` and `preset` make a policy.

    Attributes:
        administrator, refused, own, base: The administrator's rules, which win; the rules under every preset; the rules
            of the user and of the project; the rules of the preset.
        programs: Profiles by the name of the program.
        directories: Trusted directories of programs, in addition to the system's directories.
        name: The name of the preset.
        variables: The host's variables that commands have in an environment of this policy; ``None`` means all.
        reach: The reach of commands in an environment of this policy; ``None`` does not confine commands.
        destinations: Network destinations that are added to every reach with names of hosts.
        places: Paths that a command may be granted beyond its reach when the command asks: the host, ``write`` or ``read``,
            and the path. An empty host means every host.
        file: The file to which an answer for always is written; empty if an answer for always only holds for the session.
    """

    administrator: tuple[Rule, ...] = ()
    refused: tuple[Rule, ...] = ()
    own: tuple[Rule, ...] = ()
    base: tuple[Rule, ...] = ()
    programs: Mapping[str, Profile] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    name: str = ""
    variables: Variables | None = None
    reach: Reach | None = None
    file: str = ""
    destinations: tuple[str, ...] = ()
    places: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise PolicyError(
                "a policy is made by Policy.preset('workspace'), or of files by Policy.load('rules.toml')"
            )

    @classmethod
    def preset(cls, name: str) -> Policy:
        """Make the policy of a preset: ``read-only``, ``workspace``, ``ask-everything`` or ``trusted``.

        The policy has no rules of the user, and an answer for always holds for the session. The administrator's rules hold.

        Raises:
            PolicyError: No preset has that name; the administrator's file cannot be loaded; the extra ``policy`` is missing.
        """
        return replace(cls._load((), preset=name), file="")

    @classmethod
    def load(
        cls,
        *files: str | os.PathLike[str],
        preset: str | None = None,
        project: str | os.PathLike[str] | None = None,
        administrator: str | os.PathLike[str] | None = None,
        trust: Callable[[str, bytes], bool] | None = None,
        check: bool = True,
    ) -> Policy:
        """Load rules from files in TOML.

        Args:
            files: The user's rule files; by default the user's own ``policy.toml``, if the file exists. Answers for always
                are written to the last file.
            preset: The preset beneath the rules; by default the preset that a file names, or ``ask-everything``.
            project: A project's rule file, which may only ask and deny. The file is accepted if the same content was accepted
                before, or if `trust` accepts it; the content is then remembered in the user's own directory.
            administrator: The file whose rules win; by default ``/etc/anyshell/policy.toml`` if the file exists, on macOS also
                ``anyshell/policy.toml`` below ``/Library/Application Support``.
            trust: A callback that gets the path and the content of the project's file, and returns whether to accept the file.
            check: Whether the examples of the rules are checked.

        Raises:
            PolicyError: A file cannot be read or is not a rule file; an example does not hold; the project's file is not
                accepted; the extra ``policy`` is missing.
        """
        users: tuple[str | os.PathLike[str], ...] = files or (user_rules(),)
        policy = cls._load(
            users if files or os.path.lexists(users[0]) else (),
            preset=preset,
            project=project,
            administrator=administrator,
            trust=trust,
            check=check,
        )
        return replace(policy, file=os.path.abspath(users[-1]))

    @classmethod
    def _load(
        cls,
        files: Sequence[str | os.PathLike[str]],
        *,
        preset: str | None,
        project: str | os.PathLike[str] | None = None,
        administrator: str | os.PathLike[str] | None = None,
        trust: Callable[[str, bytes], bool] | None = None,
        check: bool = True,
    ) -> Policy:
        if find_spec("tree_sitter") is None or find_spec("tree_sitter_bash") is None:
            raise PolicyError(f"a policy needs the extra policy of anyshell: {INSTALL}")
        administrator = administrator_rules() if administrator is None else administrator
        users = [_loaded(path) for path in files]
        first = _loaded(administrator) if administrator is not None else RuleFile()
        name = preset or next((file.preset for file in (first, *users) if file.preset), "ask-everything")
        if name not in PRESETS:
            raise PolicyError(f"there is no preset {name!r}: the presets are {', '.join(PRESETS)}")
        base, refused = _packaged(name), _packaged("refused")
        override = first.override.union(*(file.override for file in users))
        given = [*files, *(each for each in (project, administrator) if each is not None)]
        refusals = (*refused.rules, _own_files(given))
        for unknown in override - {rule.name for rule in refusals}:
            raise PolicyError(f"override: no refused rule has the name {unknown}")
        programs: dict[str, Profile] = {**_packaged("programs").programs, **base.programs}
        for file in (*users, first):
            programs |= file.programs
        projects = RuleFile() if project is None else _project(os.fspath(project), trust)
        policy = cls(
            administrator=first.rules,
            refused=tuple(rule for rule in refusals if rule.name not in override),
            own=tuple(rule for file in (*users, projects) for rule in file.rules),
            base=base.rules,
            programs=programs,
            directories=tuple(each for file in (first, *users, base) for each in file.directories),
            name=name,
            destinations=tuple(each for file in (first, *users) for each in file.destinations),
            places=tuple(each for file in (first, *users) for each in file.places),
            variables=next((file.variables for file in (first, *users, base) if file.variables), None),
            reach=next((file.reach for file in (first, *users) if file.reach), None),
        )
        if check:
            policy.check(policy.administrator + policy.own)
        return policy

    @cached_property
    def layers(self) -> tuple[tuple[Action, tuple[Rule, ...]], ...]:
        """The rules, grouped by action, in the order in which the groups decide."""
        order: tuple[tuple[Action, tuple[Rule, ...]], ...] = (
            ("deny", self.administrator),
            ("ask", self.administrator),
            ("allow", self.administrator),
            ("deny", self.refused + self.own + self.base),
            ("ask", self.own),
            ("allow", self.own),
            ("ask", self.base),
            ("allow", self.base),
        )
        return tuple(
            (action, tuple(rule for rule in rules if rule.action == action)) for action, rules in order
        )

    @cached_property
    def cmdlets(self) -> Cmdlets:
        """Profiles of PowerShell cmdlets; the file is read at the first decision on a PowerShell text."""
        return cmdlets_of(_packaged("powershell").programs, self.programs)

    @cached_property
    def general(self) -> tuple[Rule, ...]:
        """The ``allow`` rules without ``program`` and ``command``: rules on what a command does."""
        return tuple(
            rule for action, rules in self.layers for rule in rules if action == "allow" and rule.general
        )

    def extended(self, rules: str, source: str) -> Policy:
        """Return this policy with more rules of the user, given as the text of a rule file.

        Raises:
            PolicyError: The text is not a rule file, or a rule does not hold for its examples.
        """
        file = loading.load(rules.encode(), source)
        policy = replace(
            self,
            own=self.own + file.rules,
            programs={**self.programs, **file.programs},
            directories=self.directories + file.directories,
        )
        policy.check(file.rules)
        return policy

    def check(self, rules: tuple[Rule, ...]) -> None:
        """Check the examples of rules.

        Raises:
            PolicyError: An example does not hold. The message names the rule and the first example that does not hold.
        """
        for mistake in self.mistakes(rules):
            raise PolicyError(mistake)

    def mistakes(self, rules: tuple[Rule, ...] | None = None) -> list[str]:
        """Return a message for each example that does not hold, by default of all rules."""
        if rules is None:
            rules = self.administrator + self.refused + self.own + self.base
        found = []
        for rule in rules:
            for wanted, examples in ((True, rule.match), (False, rule.not_match)):
                for text in examples:
                    parsed = _parse(text, "bash")
                    if (
                        Decision(self, parsed, EXAMPLE_FACTS, EXAMPLE_CWD, EXAMPLE_CWD).holds(rule)
                        is not wanted
                    ):
                        how = "does not hold for" if wanted else "holds for"
                        found.append(f"{rule.where}: {rule.name} {how} its example {visible(text)!r}")
        return found

    def decide(
        self,
        text: str | Parsed,
        *,
        shell: ShellKind = "bash",
        cwd: str | None = None,
        workspace: str | None = None,
        facts: HostFacts | None = None,
        given: bool = False,
    ) -> Verdict:
        """Decide on a text. No text makes the method raise.

        Args:
            text: The text for the shell, or its `parse` result.
            shell: The shell that runs it.
            cwd: The working directory of the text, absolute; by default this process's own.
            workspace: The directory that rules call ``workspace``; by default `cwd`.
            facts: The facts of the host that the text is to run on; by default this machine's.
            given: Whether the call gives the text input or variables, which the words do not show. No `plain` rule holds then.
        """
        parsed = _parse(text, shell) if isinstance(text, str) else text
        cwd = cwd or os.getcwd()
        return Decision(self, parsed, facts or LocalFacts(), cwd, workspace or cwd, given=given).verdict()

    def explain(
        self,
        text: str | Parsed,
        *,
        shell: ShellKind = "bash",
        cwd: str | None = None,
        workspace: str | None = None,
        facts: HostFacts | None = None,
    ) -> str:
        """Return lines with each command's verdict and rule, safe to print. The arguments are as for `decide`."""
        parsed = _parse(text, shell) if isinstance(text, str) else text
        return explained(parsed, self.decide(parsed, cwd=cwd, workspace=workspace, facts=facts))


def explained(parsed: Parsed, verdict: Verdict) -> str:
    """Return a verdict as lines of text that are safe to print."""
    lines = [f"{verdict.action}: {visible(parsed.text)}"]
    lines += [f"  not understood: {visible(why)}" for why in parsed.unknown]
    for each in verdict.commands:
        start, end = each.command.span
        via = f"  (by {visible(' '.join(each.command.via))})" if each.command.via else ""
        lines.append(f"  {each.action}: {visible(parsed.text[start:end])}{via}")
        lines += [
            f"    {reason.action}: {visible(reason.text)}"
            + (f"  [{visible(reason.rule)}]" if reason.rule else "")
            for reason in each.reasons
        ]
        for name in ("reads", "writes", "deletes", "network"):
            if values := getattr(each.access, name):
                lines.append(
                    f"    {name}: {visible(', '.join('not known' if value == '*' else value for value in values))}"
                )
        if each.access.privilege:
            lines.append("    runs as another user")
    return "\n".join(lines)


EXAMPLE_CWD = "/home/user/project"


class _ExampleFacts:
    """The host on which examples are checked: no links, and every program is in /usr/bin."""

    home = "/home/user"

    def find(self, program: str) -> str | None:
        return f"/usr/bin/{program}"

    def resolve(self, path: str) -> str | None:
        return os.path.normpath(path).replace("\\", "/").replace("//", "/")

    def names(self, directory: str) -> tuple[str, ...] | None:
        return ANYTHING

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        return ()


EXAMPLE_FACTS: HostFacts = _ExampleFacts()


def _parse(text: str, shell: ShellKind) -> Parsed:
    from ..parse import parse

    return parse(text, shell)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


@cache
def _packaged(name: str) -> RuleFile:
    return loading.load(read(name), name)


def _loaded(path: str | os.PathLike[str]) -> RuleFile:
    return loading.load(_read(os.fspath(path)), os.fspath(path))


def _own_files(given: Sequence[str | os.PathLike[str]]) -> Rule:
    """Return a rule that denies changes to the files of this policy and to the user's policy files, wherever the files are."""
    files = [Path(os.path.abspath(each)) for each in (*given, *user_files())]
    changes = dict.fromkeys(
        re.sub(r"[*?\[]", "?", path.as_posix()) for each in files for path in (each, each.resolve())
    )
    return Rule("deny", "policy-files", "refused", "it changes the policy itself", changes=tuple(changes))


def _project(path: str, trust: Callable[[str, bytes], bool] | None) -> RuleFile:
    data = _read(path)
    file = loading.load(data, path, tightens=True)
    import hashlib  # here, since most policies have no project

    digest = hashlib.sha256(
        os.path.abspath(path).encode("utf-8", "surrogateescape") + b"\0" + data
    ).hexdigest()
    if not remembered(digest):
        if trust is None or not trust(path, data):
            raise PolicyError(
                f"{path}: this file of a project is not trusted; read it, then load it with trust="
            )
        remember(digest)
    return file
