"""``anyshell policy``: the verdicts of a policy on commands, with reasons."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from ..failure import CommandGroup, Failure
from ..options import filled
from ..printing import mention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ... import Policy
    from ..._types import ShellKind
    from ...policy.parse import Parsed
    from ...types import Verdict
    from ..process.signals import Interruption

LARGEST_INPUT = 64 * 1024 * 1024
"""Bytes of commands that `anyshell policy check` reads; a longer input is a failure."""

_EXAMPLE_FAILED = 1  # no bound
"""The exit code of a file of rules with an example that does not hold."""

_SHELLS = ("bash", "zsh", "sh", "pwsh", "powershell")


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that a decision needs."""
    # click lists options in the order of the decorators from the top, but decorators are applied from the bottom.
    for option in reversed(
        (
            click.option(
                "--preset",
                metavar="NAME",
                help="read-only, workspace, ask-everything or trusted. [default: ask-everything]",
            ),
            click.option(
                "--rules",
                "files",
                multiple=True,
                type=click.Path(),
                metavar="FILE",
                help="A file of rules, over the preset. May be given several times. [default: your own rules, if there are"
                " any]",
            ),
            click.option(
                "--shell",
                type=click.Choice(_SHELLS),
                default="pwsh" if sys.platform == "win32" else "bash",
                show_default=True,
                help="The shell of the commands.",
            ),
            click.option(
                "--cwd",
                type=click.Path(),
                callback=filled("a directory"),
                metavar="DIR",
                help="The directory of the commands. [default: the current directory]",
            ),
            click.option(
                "--workspace",
                type=click.Path(),
                callback=filled("a directory"),
                metavar="DIR",
                help="The workspace of the rules. [default: that of --cwd]",
            ),
        )
    ):
        command = option(command)
    return command


@click.group(cls=CommandGroup, short_help="Decide on commands by rules, and explain why.")
def policy() -> None:
    """Decide on commands by rules, and explain why. Nothing is run.

    A policy is a preset, and files of rules over it: those that are given, or else your own rules, to which answers for always
    are written. The administrator's rules hold as well. The files that a decision needs are looked at on this machine.

    \b
    Examples:
      anyshell policy check 'git push --force'
      anyshell policy explain 'git status && rm -r build'
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines


@policy.command(short_help="Print the verdict of a policy on commands.")
@_options
@click.option(
    "--file",
    "source",
    type=click.File("rb"),
    metavar="FILE",
    help="Read the commands from a file instead of stdin.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per command, each on its own line."
)
@click.argument("commands", nargs=-1, metavar="[COMMAND]")
def check(*, commands: tuple[str, ...], source: IO[bytes] | None, as_json: bool, **how: Any) -> None:
    """Print the verdict of a policy on commands: allow, ask or deny.

    COMMAND is one command; without it, or for -, commands are read from stdin, with a NUL between them.

    This machine's PowerShell parses a PowerShell command; without PowerShell, the command is not understood.

    \b
    Examples:
      anyshell policy check --preset workspace 'git status && rm -r build'
      printf 'ls\\0rm -rf /\\0' | anyshell policy check --preset read-only --json
    \b
    Exit code:
      0    whatever the verdict is
      2    wrong usage
      125  a file of rules cannot be loaded, or the input is too large
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...policy import visible
    from ..printing import to_json

    if commands and source is not None:
        raise click.UsageError("give COMMAND or --file, not both")
    command = None if commands == ("-",) else _one(commands)
    decide = _decider(**how)
    for parsed in _parsed([command] if command is not None else _commands(source), how["shell"]):
        verdict = decide(parsed)
        if as_json:
            said = {
                "action": verdict.action,
                "understood": verdict.understood,
                "programs": [each.command.program for each in verdict.commands if each.command.program],
                "reasons": [reason.text for reason in verdict.reasons],
            }
            click.echo(to_json(said, one_line=True), nl=False)
        else:
            click.echo(f"{verdict.action:<5}  {visible(parsed.text)}")


@policy.command(short_help="Show the verdict on each command, and the rule behind it.")
@_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND")
def explain(*, commands: tuple[str, ...], as_json: bool, **how: Any) -> None:
    """Show the verdict on each command of a line, the rule behind it, and the effects of the command.

    This machine's PowerShell parses a PowerShell command, as for 'anyshell policy check'.

    \b
    Example:
      anyshell policy explain --preset workspace 'cd src && sort -o ../x y'
    \b
    Exit code: as for 'anyshell policy check'.
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import print_json

    loaded, cwd, workspace = _loaded(**how)
    (parsed,) = _parsed([_one(commands) or ""], how["shell"])
    if as_json:
        print_json(loaded.decide(parsed, cwd=cwd, workspace=workspace))
    else:
        click.echo(loaded.explain(parsed, cwd=cwd, workspace=workspace))


@policy.command(short_help="Check the examples in files of rules.")
@click.option(
    "--preset",
    metavar="NAME",
    help="The preset beneath the files, as for 'check'. Its examples are checked too.",
)
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
def test(*, preset: str | None, files: tuple[str, ...]) -> None:
    """Check the examples in files of rules, and list the examples that fail.

    \b
    Example:
      anyshell policy test rules.toml
    \b
    Exit code:
      0    every example holds
      1    an example fails
      125  a file cannot be loaded
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ... import Policy
    from ..printing import printable

    loaded = Policy.load(*files, preset=preset, check=False)
    if preset is None and not files and not Path(loaded.file).exists():
        raise click.UsageError(
            f"give FILE or --preset: you have no rules of your own in {printable(loaded.file)}"
        )
    rules = loaded.own if preset is None else loaded.refused + loaded.own + loaded.base
    mistakes = loaded.mistakes(rules)
    for mistake in mistakes:
        click.echo(printable(mistake))
    if mistakes:
        raise click.exceptions.Exit(_EXAMPLE_FAILED)
    count = sum(len(rule.match) + len(rule.not_match) for rule in rules)
    click.echo(f"all examples hold: {count:,}, of rules: {len(rules):,}")


@policy.command(short_help="Print the JSON schema of a file of rules.")
def schema() -> None:
    """Print the JSON schema of a file of rules.

    \b
    Example:
      anyshell policy schema > rules.schema.json
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...policy.rules.loading import SCHEMA
    from ..printing import print_json

    print_json(SCHEMA)


def _loaded(
    *, preset: str | None, files: tuple[str, ...], cwd: str | None, workspace: str | None, **_: Any
) -> tuple[Policy, str, str]:
    from ... import Policy
    from ..printing import printable

    for option, directory in (("--cwd", cwd), ("--workspace", workspace)):
        if directory and not Path(directory).is_dir():
            mention(
                f"{option} {printable(directory)} is not a directory here: its links and its files are not known"
            )
    here = os.path.abspath(cwd or Path.cwd())
    return Policy.load(*files, preset=preset), here, os.path.abspath(workspace or here)


def _decider(**how: Any) -> Callable[[Parsed], Verdict]:
    from ...policy.rules import LocalFacts

    loaded, cwd, workspace = _loaded(**how)
    facts = LocalFacts()
    return lambda parsed: loaded.decide(parsed, cwd=cwd, workspace=workspace, facts=facts)


def _parsed(texts: list[str], shell: ShellKind) -> Iterable[Parsed]:
    """Return the parsed commands. PowerShell's own parser reads PowerShell; without PowerShell, the texts are not understood."""
    from ...policy.parse import parse

    if shell not in ("pwsh", "powershell"):
        return (parse(text, shell) for text in texts)
    from ... import Environment, ShellNotFound
    from ...tool.powershell import PowerShellParser
    from ..process import signals

    found: list[Parsed] = []

    async def ask(_: Interruption) -> int:
        async with Environment.detect(shell=shell) as env:
            parser = PowerShellParser(env, env.shell)
            found.extend([await parser.parse(text) for text in texts])
        return 0

    try:
        code = signals.run(ask)
    except ShellNotFound:
        why = f"there is no {shell} on this machine, whose own parser could say what this runs"
        mention(f"{why}: such a text is asked about, unless it is denied")
        return [replace(parse(text, shell), unknown=(why,)) for text in texts]
    if code:  # a signal came
        click.get_current_context().exit(code)
    return found


def _one(commands: tuple[str, ...]) -> str | None:
    if len(commands) > 1:
        raise click.UsageError(f"put quotes around the command, which has {len(commands)} words here")
    return commands[0] if commands else None


def _commands(source: IO[bytes] | None) -> list[str]:
    if source is None:
        if sys.stdin is None:
            raise click.UsageError("stdin is closed: give COMMAND or --file")
        source = sys.stdin.buffer
    data = source.read(LARGEST_INPUT + 1)
    if len(data) > LARGEST_INPUT:
        raise Failure(f"more than {LARGEST_INPUT:,} bytes of commands: give fewer at once")
    if b"\n" in data.rstrip(b"\n") and b"\0" not in data:
        mention("stdin is taken for one command of several lines: put a NUL between commands")
    pieces = data.split(b"\0")
    return [piece.decode("utf-8", "surrogateescape") for piece in (pieces if pieces[-1] else pieces[:-1])]
