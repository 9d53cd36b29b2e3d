"""``anyshell schema`` and ``anyshell call``: the model's tool, for a person who wants to try the tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from ..failure import Failure
from ..options import load_policy, load_reach, place_options, policy_option, reach_option

if TYPE_CHECKING:
    from ...reach import Preset
    from ...tool import ShellResult, ToolDefinition
    from ..process.signals import Interruption

_SETS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "session": ("session",),
    "jobs": ("jobs",),
    "terminals": ("terminals",),
    "everything": ("session", "jobs", "terminals"),
}
"""The sets of tools that ``schema --tokens`` counts."""

_IS_ERROR = 1  # no bound
"""The exit code of a call whose result is an error."""


@click.command(short_help="Print the tool's definition for a model.")
@place_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(["openai", "responses", "anthropic", "mcp"]),
    default="anthropic",
    show_default=True,
    help="The model interface: Chat Completions, Responses, Messages, or the Model Context Protocol.",
)
@click.option("--session", is_flag=True, help="Define a tool whose calls share one shell.")
@click.option(
    "--jobs", is_flag=True, help="Define a tool that runs commands in the background, and the tool job."
)
@click.option("--terminals", is_flag=True, help="Define a tool that gives terminals, and the tool job.")
@click.option("--tokens", is_flag=True, help="Count the tokens of each set of tools instead.")
def schema(
    *,
    host: str | None,
    shell: str | None,
    cwd: str | None,
    format_: Literal["openai", "responses", "anthropic", "mcp"],
    session: bool,
    jobs: bool,
    terminals: bool,
    tokens: bool,
) -> None:
    """Print the tool's definition for a model: its name, description and parameters.

    With --jobs or --terminals there are two tools, and an array of them is printed. --tokens prints about how many tokens
    each set of tools costs in every request: characters of name, description and compact JSON schema, divided by four.

    \b
    Examples:
      anyshell schema --format openai
      anyshell schema | jq .input_schema.properties
      anyshell schema --session --jobs | jq -r '.[0].description'
      anyshell schema --tokens
    \b
    Exit code: as for 'anyshell detect'.
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ... import ShellTool, deny_all
    from ..host.reach import detected
    from ..printing import print_json

    env = detected(host, shell, cwd)

    def definitions(*, session: bool, jobs: bool, terminals: bool) -> list[ToolDefinition]:
        tool = ShellTool(env, approver=deny_all, session=session, jobs=jobs, terminals=terminals)
        return [tool.definition, *([tool.job_tool.definition] if jobs or terminals else [])]

    if tokens:
        for name, on in _SETS.items():
            made = definitions(session="session" in on, jobs="jobs" in on, terminals="terminals" in on)
            counts = [definition.tokens for definition in made]
            click.echo(f"{name:<12}{sum(counts):>6,}  {' + '.join(f'{count:,}' for count in counts)}")
        return
    chosen = definitions(session=session, jobs=jobs, terminals=terminals)
    printed = [definition.as_format(format_) for definition in chosen]
    print_json(printed if len(printed) > 1 else printed[0])


@click.command(short_help="Call the tool as a model would.")
@place_options
@click.option("--approve-all", is_flag=True, help="Run the call without a question.")
@policy_option
@reach_option
@click.option(
    "--audit",
    is_flag=True,
    help="Record the call for 'anyshell audit'; a call that cannot be recorded is not run.",
)
@click.argument("params", metavar="JSON")
@click.pass_context
def call(
    ctx: click.Context,
    /,
    *,
    host: str | None,
    shell: str | None,
    cwd: str | None,
    approve_all: bool,
    policy: str | None,
    reach: Preset | None,
    audit: bool,
    params: str,
) -> None:
    """Call the tool as a model would, and print its result as JSON.

    JSON is an object with the tool's parameters (see 'anyshell schema'); '-' reads it from stdin. Each call stands alone:
    processes that it leaves running are stopped at its end, and the next call begins in a fresh shell.

    Without --approve-all, the person at the terminal is asked first; with --policy, only about commands that the policy does
    not decide. Without a terminal, or in its background, the answer is no, and nothing is run.

    A signal, or a reader of stdout that goes away, stops the command; then nothing is printed.

    \b
    Examples:
      anyshell call '{"command": "git status --short"}'
      anyshell call --approve-all '{"command": "make test", "timeout": 600}' | jq -r .text
      anyshell call --host deploy@web-1 '{"command": "uptime"}'
      anyshell call --policy workspace '{"command": "git status && rm -r build"}'
      anyshell call --reach workspace --approve-all '{"command": "make test"}'
      anyshell call --audit '{"command": "make test"}'; anyshell audit show
    \b
    Exit code:
      0      the command exited with 0
      1      the result is an error: another exit code, a timeout, a refusal, wrong parameters
      2      wrong usage: this is not a JSON object
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n was sent to this program (141: stdout has no reader)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..host.reach import Target, mention_notices
    from ..printing import print_json
    from ..process import signals
    from ..process.descriptors import watch_peer

    given = _parse(params)
    decides = load_policy(policy)
    results: list[ShellResult] = []

    async def perform(interruption: Interruption) -> int:
        from ... import Audit, Environment, ShellTool, ask_on_terminal
        from ... import approve_all as approve

        watch_peer(1, interruption.desert)
        record = Audit(required=True) if audit else None
        where = Target(host).options
        confined = load_reach(reach)
        async with Environment.detect(
            where, shell=shell, cwd=cwd, audit=record, policy=decides, reach=confined
        ) as env:
            mention_notices(env.info)
            tool = ShellTool(env, approver=approve if approve_all else ask_on_terminal)
            results.append(await tool(given))
        if record is not None:
            record.close()
        return _IS_ERROR if results[0].is_error else 0

    code = signals.run(perform)
    if code in (0, _IS_ERROR):
        print_json(results[0].model_dump())
    ctx.exit(code)


def _parse(params: str) -> dict[str, Any]:
    """Parse the parameters. No message repeats the parameters, which may hold secrets."""
    text: bytes | str = params
    if params == "-":
        try:
            with open(0, "rb", closefd=False) as stdin:
                text = stdin.read()
        except OSError as error:
            raise Failure(f"cannot read stdin: {error.strerror}") from error
    if not text.strip():
        raise _bad('the input is empty: give an object, such as {"command": "git status --short"}')
    try:
        given = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise _bad("the JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _bad(f"this is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise _bad("this is not JSON: it is not text in UTF-8") from None
    except ValueError:  # int() takes no more than sys.get_int_max_str_digits()
        raise _bad("the JSON holds a number that is too long") from None
    if not isinstance(given, dict):
        raise _bad('give an object, such as {"command": "git status --short"}')
    return given


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _bad("an object has the same name twice: leave out one of the two")
    return made


def _no_constant(name: str) -> NoReturn:
    raise _bad(f"this is not JSON: JSON has no value {name}")


def _bad(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="JSON")
