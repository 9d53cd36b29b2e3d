"""Descriptions of a shell for models: templates, and the facts and limits that are filled into them.

A template is Markdown in the top-level ``descriptions/``, one paragraph or list item a line, with two marks:

``${NAME}``
    is replaced by a value. ``${`` begins only such marks, and ``$`` alone is a dollar sign.
``${IF word word}``
    at the start of a line keeps that line only if every word is true. A word is a program that the host has
    (``rg``), a program that the host does not have (``!fd``), one of several programs (``rg|fd``), or one of several values
    (``KIND=zsh``, ``SYSTEM=linux|macos``).

An omitted line leaves no gap, so a template reads well for every host. A line that begins with ``##`` names the section
below that line; a caller may replace the section.
"""

from __future__ import annotations

import functools
import os
import pkgutil
import re
from typing import TYPE_CHECKING, NamedTuple

from .._exceptions import AnyshellError
from .._types import exact, one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .._types import HostInfo, OutputLimits, ShellInfo, ShellKind

TIMEOUT = 120.0
"""Seconds for a command of a model, unless the call gives a timeout; then the command is stopped."""

LONGEST_TIMEOUT = 3600.0
"""Seconds of the longest timeout that a model can ask for."""

_TEMPLATES: Mapping[ShellKind, str] = {
    "bash": "bash",
    "zsh": "bash",
    "sh": "bash",
    "pwsh": "powershell",
    "powershell": "powershell",
    "wsl": "bash",
}
_NAMES = ("bash", "powershell")

_CONDITION = re.compile(r"\$\{IF ([^}\n]+)\}[ ]?")
_PLACEHOLDER = re.compile(r"\$\{([^}\n]*)\}?")
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_SET_UP = " It has the user's aliases, functions, options and PATH."
ADVICE = frozenset({"git", "programs"})
"""The kinds of advice that a description can have beside its rules: on git, and on the host's helpful programs."""

_PROGRAMS = ("rg", "fd", "fdfind", "jq", "python3", "python", "gh")
_WHOLE = {
    "here": " The whole is in a file that the result names: search that, do not rerun.",
    "job": " `job` with action `output` shows more, by the id that the result names: do not rerun.",
    "by address": " `cat 'artifact://ID?lines=1-200'`, or `?grep=REGEX&context=3`, shows more of it: do not rerun.",
    "elsewhere": " Commands cannot read the rest: print less, or into a file.",
    "lost": " The rest is lost: print less, or into a file.",
}
_SYSTEMS = {"linux": "Linux", "macos": "macOS", "windows": "Windows"}


class Description(NamedTuple):
    """A description for a model of a host's shell, with advice on its use.

    Attributes:
        shell: The shell that runs commands; its kind chooses the template.
        info: The host, with the programs of `programs` that the host has.
        directory: The default directory of commands; absolute.
        limits: The limits of the shown output.
        timeout: Seconds that a command has by default.
        max_timeout: Seconds of the longest timeout that the model can ask for.
        kept: Whether the whole of a truncated output is kept.
        addressed: Whether commands can read the whole output by its address.
        snapshot: Whether every shell starts from the user's own set-up.
        session: Whether commands run in one persistent shell.
        jobs: Whether commands can run in the background.
        terminals: Whether commands can have a terminal.
        background_after: Seconds after which a command goes on in the background by itself; ``None`` is never.
        confirmed: Whether a person confirms every command.
        tools: Names of the model's other tools, which the model should prefer.
        advice: The kinds of advice that are given, from `ADVICE`.
    """

    shell: ShellInfo
    info: HostInfo
    directory: str
    limits: OutputLimits
    timeout: float = TIMEOUT
    max_timeout: float = LONGEST_TIMEOUT
    kept: bool = True
    addressed: bool = False
    snapshot: bool = False
    session: bool = False
    jobs: bool = False
    terminals: bool = False
    background_after: float | None = None
    confirmed: bool = False
    tools: Sequence[str] = ()
    advice: Collection[str] = ADVICE

    def text(self, sections: Mapping[str, str | None] | None = None) -> str:
        """Return the text: the shell's template with its values filled in.

        Args:
            sections: Texts by the names of sections. A text replaces the section of that name, or is added at the end;
                ``None`` leaves the section out. The name of the first paragraph is empty.
        """
        text = fill(load(_TEMPLATES[self.shell.kind]), self.values(), self.info.programs)
        return text if sections is None else _with_sections(text, sections)

    def values(self) -> dict[str, str]:
        """Return every value that a template can use, by its name."""
        template = load(_TEMPLATES[self.shell.kind])
        found = {name for name in self.info.programs if name in _spoken_of(template)}
        found -= {"fdfind"} if "fd" in found else set()  # another name of the same program
        found -= {"python"} if "python3" in found else set()
        named = [f"`{name}`" for name in _PROGRAMS if name in found]
        whole = "lost"
        if self.kept:
            whole = "by address" if self.addressed else "elsewhere"
            whole = "job" if self.jobs or self.terminals else whole
            whole = "here" if self.info.is_this_machine else whole
        apart = ["job"] * self.jobs + ["command with `pty`"] * self.terminals
        separate = self.session and bool(apart)
        return {
            "KIND": self.shell.kind,
            "SHELL": one_line(f"{self.shell.name} ({self.shell.path})"),
            "DIRECTORY": one_line(self.directory).replace(
                "`", r"\x60"
            ),  # the template puts the path between backticks
            "STARTUP": _SET_UP if self.snapshot else "",
            "SYSTEM": self.info.os,
            "OS": one_line(_system(self.info)),
            "SESSION": _word(self.session),
            "JOBS": _word(self.jobs),
            "TERMINALS": _word(self.terminals),
            "SEPARATE": _word(separate),
            "SEPARATE_RUNS": f"A {' or '.join(apart)}",
            "CONFIRMED": _word(self.confirmed),
            "OTHERS": _word(bool(self.tools)),
            "TOOLS": ", ".join(f"`{one_line(name)}`" for name in self.tools),
            "LATER": _word(self.jobs and not self.session and self.background_after is not None),
            "BACKGROUND_AFTER": "" if self.background_after is None else _seconds(self.background_after),
            "ADVICE_GIT": _word("git" in self.advice),
            "INSTALLED": _word(bool(named) and "programs" in self.advice),
            "PROGRAMS": ", ".join(named),
            "WHOLE_OUTPUT": _WHOLE[whole],
            "TIMEOUT_DEFAULT": _seconds(self.timeout),
            "TIMEOUT_MAX": _seconds(self.max_timeout),
            "OUTPUT_LIMIT": _bytes(self.limits.size),
            "OUTPUT_PARTS": _parts(self.limits),
            "LINE_LIMIT": f"{self.limits.max_line:,}",
        }


def _parts(limits: OutputLimits) -> str:
    head, tail, excerpts, _ = limits.parts
    return (
        "the start, the end and errors between"
        if excerpts
        else f"the first {_bytes(head)} and last {_bytes(tail)}"
    )


def _with_sections(text: str, sections: Mapping[str, str | None]) -> str:
    opening, *rest = _SECTION.split(text)
    parts: dict[str, str | None] = {"": opening, **dict(zip(rest[::2], rest[1::2], strict=True)), **sections}
    told = (
        f"## {name}\n{body.strip()}" if name else body.strip()
        for name, body in parts.items()
        if body is not None
    )
    return "\n\n".join(told).strip() + "\n"


@functools.cache  # for two templates
def load(name: str) -> str:
    """Read a template, once per process.

    Args:
        name: ``bash``, for every POSIX shell, or ``powershell``.

    Raises:
        AnyshellError: No description has that name, or the installation has lost it.
    """
    if name not in _NAMES:
        raise AnyshellError(f"there is no description {name!r}; there are {', '.join(_NAMES)}")
    # An installed package has its templates inside, an editable install at the top of the checkout. pkgutil can read
    # from a zip, as importlib.resources can, whose import alone takes 7 ms.
    try:
        try:
            data = pkgutil.get_data("anyshell", f"descriptions/{name}.md")
        except FileNotFoundError:
            data = _from_checkout(name)
    except OSError as error:
        raise AnyshellError(f"descriptions/{name}.md cannot be read: {error.strerror}") from error
    if data is None:
        raise AnyshellError(
            f"descriptions/{name}.md is missing from this installation of anyshell; install it again"
        )
    return data.decode()


def _from_checkout(name: str) -> bytes | None:
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
    try:
        with open(os.path.join(top, "descriptions", f"{name}.md"), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def programs() -> tuple[str, ...]:
    """Return every program that a template names, in alphabetical order: the programs to look for on a host."""
    return tuple(sorted(set().union(*(_spoken_of(load(name)) for name in _NAMES))))


def _spoken_of(template: str) -> set[str]:
    """Return the programs in the conditions of a template."""
    words = (
        word for condition in _CONDITION.findall(template) for word in condition.split() if "=" not in word
    )
    return {program for word in words for program in word.removeprefix("!").split("|")}


def fill(template: str, values: Mapping[str, str], programs: Collection[str]) -> str:
    """Make the text of a template for one host.

    Args:
        template: The template, as at the top of this module.
        values: The values by name; unused values are allowed. Marks inside a value are not replaced.
        programs: The programs that the host has.

    Raises:
        AnyshellError: A placeholder has no value, or is malformed; or a condition names an unknown value.
    """

    def value(match: re.Match[str]) -> str:
        if not match[0].endswith("}") or match[1] not in values:
            raise AnyshellError(f"a description asks for {match[0]}, which has no value")
        return values[match[1]]

    lines: list[str] = []
    for line in template.splitlines():
        condition = _CONDITION.match(line)
        if condition is not None:
            if not all(_holds(word, values, programs) for word in condition[1].split()):
                continue
            line = line[condition.end() :]
        if line or (lines and lines[-1]):
            lines.append(line)
    return _PLACEHOLDER.sub(value, "\n".join(lines).strip()) + "\n"


def _holds(word: str, values: Mapping[str, str], programs: Collection[str]) -> bool:
    name, equals, wanted = word.partition("=")
    if equals:
        if name not in values:
            raise AnyshellError(f"a description asks for {name}, which is not defined")
        return values[name] in wanted.split("|")
    if word.startswith("!"):
        return word[1:] not in programs
    return any(program in programs for program in word.split("|"))


def _system(info: HostInfo) -> str:
    """Describe a host's system, such as ``Debian GNU/Linux 12 (Linux, x86_64, in a docker container)``."""
    name = f"{info.name} {info.version}".strip() or _SYSTEMS[info.os]
    details = [info.arch]
    if _SYSTEMS[info.os] not in name.split():
        details.insert(0, _SYSTEMS[info.os])
    if info.wsl:
        details.append("under WSL")
    if info.container is not None:
        details.append(f"in a {info.container} container")
    return f"{name} ({', '.join(details)})"


def _word(holds: bool) -> str:
    return "yes" if holds else "no"


def _seconds(number: float) -> str:
    """Format a number without rounding, with a comma between thousands, as in the other limits."""
    return f"{int(number):,}" if number == int(number) else exact(number)


def _bytes(count: int) -> str:
    """Format a number of bytes without rounding."""
    for unit, size in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if count >= size and count % size == 0:
            return f"{count // size:,} {unit}"
    return f"{count:,} byte" if count == 1 else f"{count:,} bytes"
