"""``anyshell schema`` and ``anyshell call``: the model's door, for a person who wants to look through it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import click

from .options import cwd_option, shell_option

if TYPE_CHECKING:
    from ..tool import ShellResult
    from .signals import Interruption

_IS_ERROR = 1
"""The exit code of a call whose result is an error."""


@click.command(short_help="Print the tool's definition for a model.")
@shell_option
@cwd_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["openai", "anthropic", "mcp"]),
    default="anthropic",
    show_default=True,
    help="Whose interface it is for: Chat Completions, Messages, or the Model Context Protocol.",
)
def schema(*, shell: str | None, cwd: str | None, format_: Literal["openai", "anthropic", "mcp"]) -> None:
    """Print the tool's definition for a model: its name, description and parameters.

    \b
    Examples:
      anyshell schema --format openai
      anyshell schema | jq .input_schema.properties
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from .. import ShellTool, deny_all
    from .host import detected
    from .printing import print_json

    tool = ShellTool(detected(shell, cwd), approver=deny_all)
    print_json(tool.definition.as_format(format_))


@click.command(short_help="Call the tool as a model would.")
@shell_option
@cwd_option
@click.option("--approve-all", is_flag=True, help="Run it without asking. Otherwise the terminal is asked.")
@click.argument("params", metavar="JSON")
@click.pass_context
def call(
    ctx: click.Context, /, *, shell: str | None, cwd: str | None, approve_all: bool, params: str
) -> None:
    """Call the tool as a model would, and print its result as JSON.

    JSON is an object with the tool's parameters (see 'anyshell schema'); '-' reads it from stdin.

    \b
    Examples:
      anyshell call '{"command": "git status --short"}'
      anyshell call --approve-all '{"command": "make test", "timeout": 600}' | jq -r .text
    \b
    Exit code:
      0    the command exited with 0
      1    the result is an error: another exit code, a timeout, a refusal, wrong parameters
      125  anyshell itself failed
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from . import signals
    from .printing import print_json

    given = _parse(params)
    results: list[ShellResult] = []

    async def perform(_: Interruption) -> int:
        from .. import Environment, ShellTool, ask_on_terminal
        from .. import approve_all as approve

        async with Environment.detect(shell=shell, cwd=cwd) as env:
            tool = ShellTool(env, approver=approve if approve_all else ask_on_terminal)
            results.append(await tool(given))
        return _IS_ERROR if results[0].is_error else 0

    code = signals.run(perform)
    for result in results:
        print_json(result.model_dump())
    ctx.exit(code)


def _parse(params: str) -> dict[str, Any]:
    """Read the parameters. No message repeats them: they may hold secrets."""
    if params == "-":
        with open(0, "rb", closefd=False) as stdin:
            text: bytes | str = stdin.read()
    else:
        text = params
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"this is not JSON: {error}", param_hint="JSON") from None
    if not isinstance(given, dict):
        raise click.BadParameter(
            'give an object, such as {"command": "git status --short"}', param_hint="JSON"
        )
    return given
