"""One decision: the effects of each command of a text on a host, and the rules that hold for the command."""

from __future__ import annotations

import ntpath
import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol

from .cmdlets import POWERSHELL, Cmdlets, adapted, find, script_doubt
from .directories import REPEATS, directories
from .matching import CHANGES_THE_SHELL, begins, contains, first_words, hosts_match, one_of, with_slash
from .paths import UNKNOWN, Paths
from .profiles import MOST_WORDS, Profile, Use, read_of, use_of, weight
from .verdict import Access, CommandVerdict, Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..parse.parsed import Argument, Parsed, ParsedCommand
    from .facts import HostFacts
    from .loading import Rule
    from .verdict import Action

MOST_COMMANDS = 64
"""Commands of a text that are decided on; a text with more is asked about, unless one of the first commands is denied."""

_PROCESS = re.compile(r"[<>]\(")
_SUBSTITUTION = re.compile(r"[<>]\((?:[^()]|\([^()]*\))*\)")
_EXPANDS = re.compile(r"[$`*?\[{}~<>(!^#\\]")
_STRICTNESS = {"deny": 0, "ask": 1, "allow": 2}


@dataclass(slots=True)
class SeenCommand:
    """A command with all known facts about the command."""

    command: ParsedCommand
    name: str
    identified: str
    """Reason why the program may not be the program that its name says; empty if no doubt exists."""
    use: Use
    access: Access
    redirected: Access
    copied: tuple[str, ...]
    """The paths that the command writes if its target is a directory."""
    words: tuple[str, ...]
    """The words of the command, as rules match the words; the program's name is the first."""
    found: tuple[str, ...]
    """The paths that patterns among the words find now."""
    bases: tuple[str | None, ...]
    """The possible working directories of the command; ``None`` for one that is not known."""


class Rules(Protocol):
    """The rules of a policy, as a decision needs the rules."""

    @property
    def programs(self) -> Mapping[str, Profile]:
        """Profiles by the name of the program."""

    @property
    def cmdlets(self) -> Cmdlets:
        """Profiles of PowerShell cmdlets."""

    @property
    def directories(self) -> tuple[str, ...]:
        """Trusted directories of programs, in addition to the system's: the name of a program there says what the program is."""

    @property
    def layers(self) -> tuple[tuple[Action, tuple[Rule, ...]], ...]:
        """The rules, grouped by action, in the order in which the groups decide."""

    @property
    def general(self) -> tuple[Rule, ...]:
        """The ``allow`` rules without ``program`` and ``command``: rules on what a command does."""


def _most(commands: Sequence[ParsedCommand]) -> int:
    """Return the number of commands to decide on, bounded so that the rules take milliseconds for a text."""
    words = 0
    for at, command in enumerate(commands[:MOST_COMMANDS]):
        words += 1 + sum(map(weight, command.arguments)) + len(command.redirections)
        if words > MOST_WORDS:
            return max(at, 1)
    return min(len(commands), MOST_COMMANDS)


class Decision:
    """The decision of a policy on one text on one host."""

    def __init__(
        self,
        policy: Rules,
        parsed: Parsed,
        facts: HostFacts,
        cwd: str,
        workspace: str,
        *,
        given: bool = False,
    ) -> None:
        self.policy = policy
        self._given_besides = given
        self.paths = Paths(facts, cwd, workspace, dots=parsed.shell in POWERSHELL)
        self.written = parsed.commands
        self._cmdlets = policy.cmdlets if parsed.shell in POWERSHELL else None
        if self._cmdlets is not None:
            parsed = adapted(parsed, self._cmdlets, policy.programs, drive=ntpath.splitdrive(cwd)[0])
        self.parsed = parsed
        self._find = cache(facts.find)
        self._git_runs = cache(facts.git_runs)
        self.commands = parsed.commands[: _most(parsed.commands)]
        for command in self.commands:
            for variable in command.variables:
                self.paths.variables.pop(variable.name, None)
                if variable.name == "HOME":
                    self.paths.variables.pop("~", None)

    def verdict(self) -> Verdict:
        """Decide on each command and return the verdict on the text."""
        commands = tuple(map(self._command, self.seen, self.written))
        reasons = [reason for each in commands for reason in each.reasons]
        own = {why for each in self.parsed.commands for why in each.unknown}
        unknown = [why for why in self.parsed.unknown if why not in own]
        if len(self.parsed.commands) > len(self.commands):
            unknown.append(f"the text has more than {MOST_COMMANDS} commands, or {MOST_WORDS} words")
        reasons += [Reason(why, "ask", "", (0, len(self.parsed.text))) for why in unknown]
        understood = self.parsed.understood and not unknown
        action: Action = "allow" if understood else "ask"
        action = min([action, *(each.action for each in commands)], key=_STRICTNESS.__getitem__)
        if action != "allow":
            reasons = [reason for reason in reasons if reason.action != "allow"]
        reasons.sort(key=lambda reason: _STRICTNESS[reason.action])
        return Verdict(action, tuple(reasons), commands, understood)

    def holds(self, rule: Rule) -> bool:
        """Whether a rule holds: an ``allow`` for every command of the text, another rule for at least one command."""
        if rule.action != "allow":
            return any(self._matches(rule, seen) for seen in self.seen)
        return self.parsed.understood and all(
            self._matches(rule, seen) and self._redirections_allowed(rule, seen, ()) for seen in self.seen
        )

    @cached_property
    def seen(self) -> list[SeenCommand]:
        """The commands that are decided on, each with its facts."""
        found: list[SeenCommand] = []
        for at, bases in enumerate(directories(self.commands, self.parsed.text, self.paths)):
            found.append(self._see(at, bases, found))
        return found

    # The properties and effects of a command

    def _see(self, at: int, bases: tuple[str | None, ...], before: Sequence[SeenCommand]) -> SeenCommand:
        command = self.commands[at]
        name, doubt, profile = self._program(command)
        if command.via and any(_runs_elsewhere(each.command) for each in before if each.name == "find"):
            bases = (None,)
        use = Use() if profile is None else use_of(name, profile, self._arguments(at, profile, before, bases))
        if profile is None and command.program:
            use.unknown.append(f"{name} is not a program that is known")
        if use.runs and not self._runs_known(at, name):
            use.unknown.append(f"it is not known what {name} runs")
        use.unknown += [why for why in command.unknown if why not in use.unknown]
        if use.git:
            self._ask_git(use, bases)
        if use.directories:
            bases = (*bases, *(each for word in use.directories for each in self._moved_to(word, bases)))
        if command.host:
            bases = (None,)
        access = self._access(use, bases, elsewhere=bool(command.host))
        copied = () if command.host else self._copied(use, bases)
        words = (name, *(word.text for word in command.arguments))
        if self._cmdlets is not None and self.paths.windows:
            words += tuple(word.lower() for word in words[1:])  # rules name files in lower case
        found = tuple(
            path
            for each in read_of(command.arguments)
            if not each.literal
            for path in self.paths.found(each, bases) or ()
        )
        redirected = self._redirected(command, bases)
        return SeenCommand(command, name, doubt, use, access, redirected, copied, words, found, bases)

    def _arguments(
        self, at: int, profile: Profile, before: Sequence[SeenCommand], bases: Sequence[str | None]
    ) -> list[Argument]:
        """Return a command's arguments. Names from ``find`` or ``xargs`` become paths below the searched paths, or unknown."""
        command = self.commands[at]
        given = self._given(at, profile, before) if command.via else []
        arguments: list[Argument] = []
        for word in command.arguments:
            if word.literal or (_EXPANDS.search(word.text) and "{}" not in word.text):
                if profile.only_reads() and not word.literal and _SUBSTITUTION.fullmatch(word.text):
                    word = replace(word, text="/dev/fd/63", literal=True, single=True)
                elif not word.literal and self._is_no_flag(word, before, bases):
                    word = replace(word, text=f"./{word.text}")
                arguments.append(word)
            elif given and word.text == "{}":
                arguments += [replace(word, text=f"{path}/**", literal=True, single=False) for path in given]
            else:
                arguments.append(replace(word, text="$input", single=False))
        return arguments

    def _is_no_flag(self, word: Argument, before: Sequence[SeenCommand], bases: Sequence[str | None]) -> bool:
        """Whether a word is a pattern for names in the current directory, and no found name begins with a dash."""
        if word.text[:1] not in "*?[" or REPEATS.search(self.parsed.text) or self.parsed.functions:
            return False
        if any(each.background or each.piped for each in self.commands) or _PROCESS.search(self.parsed.text):
            return False  # a later command may run before this command
        if any(each.access.writes or each.use.unknown for each in before):
            return False  # an earlier command may make a name with a dash
        written = [path for each in before for path in each.redirected.writes]
        found = (
            None
            if "{" in word.text
            else self.paths.last_names(replace(word, text=word.text.partition("/")[0]), bases)
        )
        return found is not None and not any(
            re.search(r"(\A|[/\\])-[^/\\]*\Z", path) for path in (*written, *found)
        )

    def _given(self, at: int, profile: Profile, before: Sequence[SeenCommand]) -> tuple[str, ...]:
        """Return the paths below which all names from ``find`` or ``xargs`` lie; empty if not known."""
        command = self.commands[at]
        *via, giver = command.via
        source = at - 1
        while source >= 0 and before[source].command.via != tuple(via):
            source -= 1
        if source < 0 or before[source].command.program != giver:
            return ()
        if giver == "xargs":
            whole = any(word.text in ("-0", "--null") for word in before[source].command.arguments[:1])
            while before[source].name == "xargs" or before[source].use.output == "lines":
                if before[source].access.reads or _has_own_input(before[source].command):
                    return ()  # the names come from a file
                source -= 1
                if source < 0 or via or before[source].command.via:
                    return ()
                between = self.parsed.text[
                    before[source].command.span[1] : before[source + 1].command.span[0]
                ]
                if between.strip() != "|":
                    return ()
            # Without -0, xargs splits a name at blanks. The parts can be flags, or paths anywhere.
            if not whole and not profile.harmless:
                return ()
            # Only find begins each name with the path that find was told to search.
            if before[source].use.output != "names" or (
                before[source].name != "find" and not profile.harmless
            ):
                return ()
        elif _runs_elsewhere(before[source].command):
            return ()
        paths = before[source].access.reads
        return () if UNKNOWN in paths else paths

    def _moved_to(self, word: Argument, bases: Sequence[str | None]) -> list[str | None]:
        return [None if path == UNKNOWN else path for path in self.paths.resolved(word, bases)]

    def _program(self, command: ParsedCommand) -> tuple[str, str, Profile | None]:
        """Return a program's name, a reason why the program may not be what its name says, and its profile."""
        program = command.program
        if not program:
            return "", "" if program == "" else "the program is not literal", None
        if cmdlet := find(program, self._cmdlets or {}, windows=self.paths.windows):
            return cmdlet[0], "", cmdlet[1]
        name = re.split(r"[/\\]" if self.paths.windows else "/", program)[-1]
        if self.paths.windows:
            name = name.lower().removesuffix(".exe")
        profile = self.policy.programs.get(name)
        if profile is None and name.casefold() in self.policy.programs:
            # On some systems both names are one file; on others HEAD connects to hosts, and head does not.
            return name, f"{name} is written in another case", self.policy.programs[name.casefold()]
        if command.host:
            return name, f"it runs on {command.host}", profile
        if name != program:
            found = program if self.paths.join("/", program) == program else None
            if found is None:
                return name, f"{program} is not a program of the system", profile
        elif profile is not None and profile.builtin and not command.via and self._cmdlets is None:
            return name, "", profile
        else:
            found = self._find(program)
            if found == "" and program in self.parsed.functions:
                return name, "", self.policy.programs.get(name, _FUNCTION)
            if not found:
                why = "PATH has no" if found == "" else "it is not known which file PATH gives for"
                return name, f"{why} {program}", profile
        directory = self.paths.resolve(found[: max(len(found) - len(name) - 1, 1)])
        target = self.paths.resolve(found)
        places = ("programs", *self.policy.directories)
        if self._cmdlets and (doubt := script_doubt(command, self._find, self.paths, places)):
            return name, doubt, profile
        if directory is None or target is None or not self.paths.within(directory, places, strictly=True):
            return name, f"{program} is {found}, which is in no directory of the system's programs", profile
        inside = self.paths.within(target, ["workspace"], strictly=False)
        if inside and not self.paths.within(target, places, strictly=True):
            return name, f"{program} leads to {target}, in the workspace", profile
        return name, "", profile

    def _runs_known(self, at: int, name: str) -> bool:
        """Whether the command that a program runs is also a command of the text."""
        command = self.commands[at]
        for other in self.commands[at + 1 :]:
            if other.via[: len(command.via)] != command.via or len(other.via) <= len(command.via):
                return False
            if other.via[len(command.via)] == command.program:
                return True
        return False

    def _ask_git(self, use: Use, bases: Iterable[str | None]) -> None:
        asked = [*bases, *(each for word in use.directories for each in self._moved_to(word, [*bases]))]
        for directory in asked:
            keys = None if directory is None else self._git_runs(directory)
            if keys is None:
                use.unknown.append("it is not known what git's configuration makes it run")
                return
            for key in keys:
                if key.startswith("GIT_") or any(fnmatchcase(key, pattern) for pattern in use.git):
                    use.unknown.append(f"git's configuration has {key}, which may run a program")
                    return

    def _access(self, use: Use, bases: Sequence[str | None], *, elsewhere: bool) -> Access:
        found: dict[str, list[str]] = {"reads": [], "writes": [], "deletes": []}
        for role, word in use.paths:
            kind = {"links": "writes", "copies": "reads"}.get(role, role)
            if elsewhere:
                found[kind].append(UNKNOWN)
                continue
            text = word if isinstance(word, str) else word.text if word else ""
            if text == "-" and kind == "reads":
                continue  # reading: - is stdin; writing or deleting: - is a file of that name
            upwards = role == "links" and ".." in text.split("/")
            found[kind] += [UNKNOWN] if upwards else self.paths.resolved(word, bases)
            if role == "copies" and word is not None:
                # A later command can write through the copy of a link.
                found["writes"] += self.paths.links(word, bases)
        paths = {kind: tuple(dict.fromkeys(values)) for kind, values in found.items()}
        return Access(**paths, network=tuple(dict.fromkeys(use.hosts)), privilege=use.privilege)

    def _copied(self, use: Use, bases: Sequence[str | None]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for source, into in use.copies:
            names = self.paths.last_names(source, bases)
            for directory in self.paths.resolved(into, bases):
                # An unknown source or target is already among the paths that the command reads or writes.
                for name in names or () if directory != UNKNOWN else ():
                    found[self.paths.resolve(self.paths.join(directory, name) or "") or UNKNOWN] = None
        return tuple(found)

    def _redirected(self, command: ParsedCommand, bases: Sequence[str | None]) -> Access:
        reads: list[str] = []
        writes: list[str] = []
        network: list[str] = []
        for each in command.redirections:
            if not each.file:
                continue
            if device := re.match(r"/dev/(?:tcp|udp)/([^/]*)", each.target.text):
                network.append(device[1])  # bash opens a connection
            paths = self.paths.resolved(each.target, bases)
            reads += paths if each.reads else ()
            writes += paths if each.writes or not each.reads else ()
        return Access(tuple(reads), tuple(writes), (), tuple(network))

    # The rules that hold

    def _command(self, seen: SeenCommand, written: ParsedCommand) -> CommandVerdict:
        action, reasons = self._decided(seen)
        whole, more = seen.access, seen.redirected
        access = Access(
            whole.reads + more.reads,
            whole.writes + more.writes,
            whole.deletes,
            whole.network + more.network,
            whole.privilege,
        )
        command = replace(written, unknown=seen.command.unknown)
        return CommandVerdict(command, action, access, tuple(reasons), tuple(seen.use.unknown))

    def _decided(self, seen: SeenCommand) -> tuple[Action, list[Reason]]:
        unknown = [*seen.use.unknown, *([seen.identified] if seen.identified else [])]
        perhaps: Rule | None = None
        for action, rules in self.policy.layers:
            for rule in rules:
                if not self._matches(rule, seen):
                    continue
                if action == "deny" and not self._conditions(rule, seen, anywhere=False):
                    perhaps = perhaps or rule  # a path below a directory may be one that the rule denies
                    continue
                if perhaps is not None and action != "deny":
                    why = self._reason(perhaps, seen)
                    return "ask", [replace(why, text=f"perhaps {why.text}", action="ask")]
                covered = action != "allow" or self._redirections_allowed(rule, seen, self.policy.general)
                if covered and not (action == "allow" and seen.command.unknown):
                    return action, [self._reason(rule, seen)]
        texts = unknown or [self._denied_clause(seen)]
        return "ask", [Reason(text, "ask", "", seen.command.span) for text in texts]

    def _reason(self, rule: Rule, seen: SeenCommand) -> Reason:
        text = rule.message or (
            _summary(seen) if rule.action != "allow" else f"{seen.name or 'the shell'} is allowed"
        )
        return Reason(text, rule.action, f"{rule.where}: {rule.name}", seen.command.span)

    def _denied_clause(self, seen: SeenCommand) -> str:
        """Return a clause for people: the effect of a command that no general rule allows."""
        who = seen.name or "the shell"
        for kind, verb in (("deletes", "deletes"), ("writes", "writes"), ("reads", "reads")):
            for path in getattr(seen.access, kind) + getattr(seen.redirected, kind, ()):
                rules = self.policy.general
                if not any(
                    self.paths.within(path, getattr(rule, kind) or (), strictly=True) for rule in rules
                ):
                    return f"{who} {verb} {self._place(path)}"
        if seen.access.network or seen.redirected.network:
            return f"{who} connects to {', '.join(_named(each, 'hosts') for each in seen.access.network + seen.redirected.network)}"
        if seen.access.privilege:
            return f"{who} runs as another user"
        return f"no rule allows {who}"

    def _place(self, path: str) -> str:
        if path == UNKNOWN:
            return "paths that its words do not name"
        inside = self.paths.within(path, ["workspace"], strictly=True)
        return f"{path}, in the workspace" if inside else f"{path}, outside of the workspace"

    def _matches(self, rule: Rule, seen: SeenCommand) -> bool:
        strictly = rule.action == "allow"
        if not self._program_matches(rule, seen, strictly=strictly):
            return False
        if rule.plain and not self._is_plain(seen.command):
            return False
        if rule.command is not None:
            if not strictly and not first_words(rule.command).fullmatch(seen.name.casefold()):
                return False
            match = begins if strictly else contains
            has = seen.words if strictly or rule.exact else seen.words + seen.found
            if not any(match(words, has, seen.command.arguments, exact=rule.exact) for words in rule.command):
                return False
            if strictly and not rule.expansions and not all(map(self.paths.is_plain, seen.command.arguments)):
                return False
        if not strictly:
            return self._conditions(rule, seen)
        elsewhere = seen.command.host
        if bool(elsewhere) != bool(rule.host) or (
            elsewhere and not hosts_match(rule.host or (), [elsewhere])
        ):
            return False
        if rule.whatever:
            return True
        everything = replace(seen.access, writes=seen.access.writes + seen.copied)
        return not seen.use.unknown and self._covered(rule, everything)

    def _is_plain(self, command: ParsedCommand) -> bool:
        """Whether a command's words and its working directory alone say what the command does."""
        redirected = any(
            (each.reads or not each.file) and not (each.target.literal and each.target.text == "/dev/null")
            for each in command.redirections
            if each.operator.startswith("<")
        )
        around = command.via or command.variables or command.piped or command.background or redirected
        return not (around or self._given_besides or self._changes_the_shell)

    @cached_property
    def _changes_the_shell(self) -> bool:
        """Whether a command of the text may change what other commands mean or read."""
        return any(
            not each.program or each.defines or each.program.casefold() in CHANGES_THE_SHELL
            for each in self.parsed.commands
        )

    def _program_matches(self, rule: Rule, seen: SeenCommand, *, strictly: bool) -> bool:
        items = with_slash(rule.program) if seen.command.program and "/" in seen.command.program else ()
        if items and seen.command.program:
            files = [self.paths.resolved_program(seen.command.program, base) for base in seen.bases]
            found = [file is not None and self.paths.within(file, items, strictly=strictly) for file in files]
            if all(found) if strictly else any(found):
                return True
        if strictly and seen.identified and not (seen.command.host and rule.host):
            return False
        if rule.program is None:
            return not strictly or rule.command is not None or not seen.use.unknown
        if strictly:
            return bool(seen.name) and any(fnmatchcase(seen.name, pattern) for pattern in rule.program)
        return bool(one_of(rule.program).fullmatch(seen.name.casefold()))

    def _covered(self, rule: Rule, access: Access) -> bool:
        """Whether an ``allow`` rule names all paths and hosts that a command touches."""
        for kind in ("reads", "writes", "deletes"):
            items = getattr(rule, kind) or ()
            if not all(self.paths.within(path, items, strictly=True) for path in getattr(access, kind)):
                return False
        if access.network and rule.network is not True:
            hosts = rule.network or ()
            if not all(hosts_match(hosts, [host]) for host in access.network):
                return False
        return rule.privilege is True or not access.privilege

    def _redirections_allowed(self, rule: Rule, seen: SeenCommand, general: Iterable[Rule]) -> bool:
        """Whether an ``allow`` rule, or a general rule of any layer, names all targets of the redirections."""
        if seen.redirected == _NOTHING or (not rule.whatever and self._covered(rule, seen.redirected)):
            return True
        return any(not each.host and self._covered(each, seen.redirected) for each in general)

    def _conditions(self, rule: Rule, seen: SeenCommand, *, anywhere: bool = True) -> bool:
        """Whether a command meets, or may meet, all conditions of an ``ask`` or ``deny`` rule.

        Args:
            rule: The rule of the policy.
            seen: The command.
            anywhere: Whether ``**`` in a command's path may stand for names that a rule's ``**/…`` item has at any depth.
        """
        command = seen.command
        reads = seen.access.reads + seen.redirected.reads
        writes = (*seen.access.writes, *seen.redirected.writes, *seen.copied)
        deletes = seen.access.deletes
        touched = (
            (rule.reads, ((reads, False),)),
            (rule.writes, ((writes, False),)),
            (rule.deletes, ((deletes, True),)),
            (rule.changes, ((writes, False), (deletes, True))),
        )
        # A rule that asks or denies also holds for a path that may be in its area: `strictly=False`. All conditions have to hold.
        for items, groups in touched:
            if items is not None and not any(
                self.paths.within(path, items, strictly=False, deletes=below, anywhere=anywhere)
                for paths, below in groups
                for path in paths
            ):
                return False
        network = seen.access.network + seen.redirected.network
        if isinstance(rule.network, bool) and rule.network != bool(network):
            return False
        if isinstance(rule.network, tuple) and not hosts_match(rule.network, network):
            return False
        if rule.host is not None and not hosts_match(rule.host, [command.host]):
            return False
        facts = (
            (rule.privilege, seen.access.privilege),
            (rule.piped, command.piped),
            (rule.background, command.background),
            (rule.recursive, command.defines and command.program in self.parsed.functions),
        )
        if any(wanted is not None and wanted != has for wanted, has in facts):
            return False
        return rule.input_of is None or self._is_fed(command, rule.input_of)

    def _is_fed(self, command: ParsedCommand, patterns: Sequence[str]) -> bool:
        """Whether a command reads the output of certain programs, by pipes or a substitution in its words or redirections."""
        commands = self.commands
        at = next(at for at, each in enumerate(commands) if each is command)
        spans = [command.span, *(each.target.span for each in command.redirections)]
        sources = [
            each
            for each in commands[at + 1 :]
            if any(start <= each.span[0] and each.span[1] <= end for start, end in spans)
            and len(each.via) <= len(command.via)
        ]
        before = at
        while before and (commands[before].piped or commands[before].via):
            before -= 1
            sources.append(commands[before])
        names = [(each.program or "").rpartition("/")[2].casefold() for each in sources]
        return any(fnmatchcase(name, pattern.casefold()) for name in names for pattern in patterns)


_NOTHING = Access()
_FUNCTION = Profile(harmless=True, positionals=("text*",))
"""Profile of a call of a function of the text; the function's commands are decided on as commands of the text."""


def _has_own_input(command: ParsedCommand) -> bool:
    """Whether a command has an input redirection, and so does not read the pipe before it."""
    return any(each.operator.startswith("<") for each in command.redirections)


def _runs_elsewhere(command: ParsedCommand) -> bool:
    """Whether a ``find`` command runs another command in the directories of the found files."""
    return any(word.text in ("-execdir", "-okdir") for word in command.arguments)


def _summary(seen: SeenCommand) -> str:
    """Return a clause on the effects of a command."""
    parts = [
        f"{verb} {', '.join(_named(path, 'paths') for path in paths)}"
        for verb, paths in (
            ("deletes", seen.access.deletes),
            ("writes", seen.access.writes + seen.redirected.writes),
            ("connects to", seen.access.network + seen.redirected.network),
        )
        if paths
    ]
    return f"{seen.name or 'the shell'} {' and '.join(parts) or 'is named by a rule'}"


def _named(value: str, noun: str) -> str:
    return f"{noun} that its words do not name" if value == UNKNOWN else value
