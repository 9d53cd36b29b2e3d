"""The options that several commands share, and the types of the options' values."""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .._exceptions import BackendUnavailable, InvalidCommand, PolicyError
from .._types import DEFAULT_GRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.shell_completion import CompletionItem

    from .. import Environment, Policy, Reach
    from ..reach import Preset

F = TypeVar("F", bound="Callable[..., Any] | click.Command")


_UNITS = {"d": 24 * 3600, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_PARTS = "".join(rf"(?:(?P<{unit}>[0-9]+(?:\.[0-9]+)?){unit})?" for unit in _UNITS)


def read_duration(text: str) -> float:
    """Read a duration as seconds: ``90``, ``0.5``, ``90s``, ``500ms``, ``5m``, ``1h30m``, ``7d``.

    Raises:
        ValueError: The text is not a duration, is negative, or is not finite.
    """
    try:
        seconds = float(text)
    except ValueError:
        found = re.fullmatch(_PARTS, text)
        if found is None or not text:
            raise
        seconds = sum(float(number) * _UNITS[unit] for unit, number in found.groupdict("0").items())
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError
    return seconds


class Duration(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """A duration in seconds, above 0 unless 0 is allowed."""

    name = "duration"

    def __init__(self, *, zero: bool = False) -> None:
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds."""
        try:
            seconds = read_duration(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is not a duration: give seconds (30, 0.5), or 500ms, 90s, 5m, 1h30m, 7d",
                param,
                ctx,
            )
        if seconds == 0 and not self._zero:
            self.fail(f"{value!r} is not above 0: give a duration, such as 30 or 5m", param, ctx)
        return seconds


class Size(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """A number of bytes, such as ``8192``, ``8k``, ``1m`` or ``2g``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number."""
        found = re.fullmatch(r"([0-9]{1,15})(?:([kmg])(?:i?b)?)?", str(value).lower())
        if found is None:
            self.fail(f"{value!r} is not a number of bytes: give 8192, 8k, 1m or 2g", param, ctx)
        return int(found[1]) * {"k": 1024, "m": 1024**2, "g": 1024**3}.get(found[2], 1)


class WholeNumber(click.ParamType):  # type: ignore[type-arg]  # as above
    """A whole number in a range."""

    name = "number"

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number."""
        try:
            number = int(value)
        except ValueError:
            number = self._least - 1
        if number < self._least or (self._most is not None and number > self._most):
            bounds = (
                f"{self._least} or more" if self._most is None else f"from {self._least} to {self._most:,}"
            )
            self.fail(f"it must be a whole number, {bounds}, not {value!r}", param, ctx)
        return number


class Directory(click.Path):
    """A directory that exists or can be made."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse a file."""
        if os.path.isfile(value):
            self.fail(f"{os.fspath(value)!r} is a file: give a directory", param, ctx)
        return super().convert(value, param, ctx)


class Variable(click.ParamType):  # type: ignore[type-arg]  # not generic in the oldest click that we take
    """An environment variable, written ``NAME=VALUE``. No message repeats the value, which may be a secret."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split the text at the first equals sign."""
        from .._types import check_variable

        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals:
            self.fail("there is no '=' in it: write NAME=VALUE (NAME= for an empty value)", param, ctx)
        try:
            check_variable(name, text)
        except InvalidCommand as error:
            self.fail(str(error), param, ctx)
        return name, text


class CellCount(click.ParamType):  # type: ignore[type-arg]  # as above
    """Columns or rows of a terminal."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number."""
        from .._types import Terminal

        try:
            return Terminal(columns=int(value)).columns
        except ValueError:  # also when it is out of range
            self.fail(f"{value!r} is not a number of columns or rows: give one from 2 to 1,000", param, ctx)


class HostAddress(click.ParamType):  # type: ignore[type-arg]  # as above
    """The address of a host. No message repeats an address that holds a password."""

    name = "host"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a malformed address, before any host is contacted."""
        from .host.reach import parse

        try:
            parse(value)
        except (BackendUnavailable, InvalidCommand) as error:
            several = "; for several hosts: anyshell fleet --hosts" if "," in value else ""
            self.fail(f"{error}{several}", param, ctx)
        return str(value)


def _items(words: Iterable[str], kind: str = "plain") -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # imported here, since only a completion needs it

    return [CompletionItem(word, type=kind) for word in words]


def _complete_host(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ..backends.ssh.connection.aliases import find_aliases

    user, at, begun = incomplete.rpartition("@")
    return _items(user + at + alias for alias in find_aliases() if alias.startswith(begun))


def is_elsewhere(ctx: click.Context) -> bool:
    """Whether a path would be on another host, which is not asked for completions."""
    return ctx.params.get("host") not in (None, "local")


def _complete_shell(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ..shells import SHELLS

    if "/" in incomplete:
        return complete_file(ctx, param, incomplete)
    programs = [program for shell in SHELLS.values() for program in shell.programs]
    return _items(program for program in programs if program.startswith(incomplete))


def _complete_directory(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _items([] if is_elsewhere(ctx) else [incomplete], "dir")


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tell the shell to complete a path of this machine; return no completion for another host."""
    return _items([] if is_elsewhere(ctx) else [incomplete], "file")


def filled(what: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a callback that refuses an empty value of an option."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value == "":  # often an unset variable of a script
            raise click.BadParameter(f"it is empty: give {what}, or leave it out", ctx, param)
        return value

    return check


def _known_shell(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if filled("a shell")(ctx, param, value) is not None:
        from ..shells import query

        try:
            query((), value, source="it")
        except InvalidCommand as error:
            raise click.BadParameter(str(error).removeprefix("it: "), ctx, param) from None
    return value


def _text_option(
    name: str, metavar: str, what: str, complete: Callable[..., list[CompletionItem]], help_: str
) -> Callable[[F], F]:
    return click.option(name, metavar=metavar, callback=filled(what), shell_complete=complete, help=help_)


host_option = click.option(
    "--host",
    type=HostAddress(),
    metavar="HOST",
    callback=filled("a host"),
    shell_complete=_complete_host,
    help="The host: user@host, an alias of ~/.ssh/config, or ssh://user@host:port/directory. Default: local, "
    "this machine.",
)

shell_option = click.option(
    "--shell",
    metavar="KIND|PATH",
    callback=_known_shell,
    shell_complete=_complete_shell,
    help="bash, zsh, sh, dash, ash, pwsh, powershell or wsl, or the absolute path of one of these. Default: "
    "$ANYSHELL_SHELL, else bash, else sh; on Windows pwsh, else powershell, else bash.",
)

cwd_option = _text_option(
    "--cwd",
    "DIR",
    "a directory",
    _complete_directory,
    "Where commands run. Default: the current directory; with --host, that of a login there.",
)


def place_options(command: F) -> F:
    """Add ``--host``, ``--shell`` and ``--cwd``."""
    for option in (cwd_option, shell_option, host_option):
        command = option(command)
    return command


env_option = click.option(
    "--env",
    "variables",
    type=Variable(),
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a variable. May be given several times.",
)

timeout_option = click.option(
    "--timeout",
    type=Duration(),
    help="Stop the command and its processes after this time: seconds, or 90s, 5m, 1h30m. Default: none.",
)

silence_option = click.option(
    "--silence",
    type=Duration(),
    help="Stop the command, as --timeout does, after this time without output and input. Default: never.",
)

grace_option = click.option(
    "--grace",
    type=Duration(zero=True),
    default=DEFAULT_GRACE,
    show_default=True,
    help="Time for a stopped command to end by itself, before it is killed.",
)


def _is_prefix(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        from ..shells.prefix import Prefix

        try:
            Prefix(value)
        except InvalidCommand as error:
            raise click.BadParameter(str(error), ctx, param) from error
    return value


prefix_option = click.option(
    "--prefix",
    metavar="WORDS",
    callback=_is_prefix,
    help="Words before the shell that runs the command: a program and its arguments, such as 'nice -n 10'.",
)

reach_option = click.option(
    "--reach",
    type=click.Choice(["workspace", "read-only", "none"]),
    help="Confine commands: they write the directory that they run in (workspace), or nothing (read-only), see no keys and "
    "logins, and have no network. Without it, and with none, they can do what you can.",
)


def load_reach(name: Preset | None) -> Reach | None:
    """Return the reach of ``--reach``; ``None`` without the option."""
    if name is None:
        return None
    from .. import Reach

    return Reach.preset(name)


snapshot_option = click.option(
    "--snapshot",
    is_flag=True,
    help="Start the shell with your own set-up: the aliases, functions, options and PATH of its startup file.",
)


UP_TO_COMMAND = {"allow_interspersed_args": False}
"""Settings of click for a COMMAND argument: options of anyshell end at the first word of COMMAND."""


def command_options(command: F) -> F:
    """Add the options of every command that runs on one host, from ``--host`` to ``--grace``."""
    for option in (grace_option, silence_option, timeout_option, env_option):
        command = option(command)
    return place_options(command)


policy_option = click.option(
    "--policy",
    metavar="PRESET|FILE",
    callback=filled("a preset or a file"),
    help="Ask only about commands that this policy does not allow; refuse commands that it denies.",
)


def load_policy(name: str | None) -> Policy | None:
    """Return the policy of a preset and the user's rules, or of a file of rules alone; ``None`` without a name."""
    if name is None:
        return None
    from .. import Policy

    if os.sep in name or name.endswith(".toml"):
        return Policy.load(name)
    try:
        return Policy.load(preset=name)
    except PolicyError as error:
        if not os.path.isfile(name):
            raise
        raise PolicyError(f"{error}; the file is ./{name}") from error


left_behind_option = click.option(
    "--left-behind",
    type=click.Choice(["stop", "keep"]),
    default="stop",
    show_default=True,
    help="What becomes of processes that outlive the command. A kept process that prints is ended by SIGPIPE: "
    "redirect its output to a file.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def record_options(command: F) -> F:
    """Add ``--record``, ``--record-format`` and ``--record-input``."""
    options = (
        click.option(
            "--record",
            type=click.Path(),
            metavar="FILE",
            callback=filled("a file"),
            help="Record the output of the command, with its times, into a new asciicast file, as asciinema does. With"
            " --pty the file has the terminal's output; without, the output as a terminal of 80 columns and 24 "
            "rows would show it.",
        ),
        click.option(
            "--record-format",
            type=click.Choice(["v3", "v2"]),
            help="With --record: the version of asciicast. Default: v3.",
        ),
        click.option(
            "--record-input",
            is_flag=True,
            help="With --record: also record the typed input, or stdin. Input that the terminal does not echo, as at a"
            " password prompt, is left out.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def command_text(command: tuple[str, ...], env: Environment) -> str:
    """Return the text of a command: one argument unchanged, or several arguments quoted for the shell."""
    if len(command) == 1:
        return command[0]
    from ..shells import SHELLS

    return SHELLS[env.shell.kind].join(command)
