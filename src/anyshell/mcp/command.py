"""The command ``anyshell mcp``: its options, and the run of the server until its end."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ..cli.failure import Failure
from ..cli.options import (
    WholeNumber,
    load_policy,
    load_reach,
    place_options,
    policy_option,
    reach_option,
)
from ..cli.printing import mention
from .configs import FILES, config_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from ..cli.process.signals import Interruption
    from ..reach import Preset
    from .tools import ClientTools

PORT = 8365  # no bound: an unassigned port number
INSTALL = "python -m pip install 'anyshell[mcp]', or '.[mcp]' in a clone"


@click.command(short_help="Serve the tools to programs that speak MCP.")
@place_options
@policy_option
@reach_option
@click.option(
    "--session", is_flag=True, help="Commands share one shell, which keeps its directory and variables."
)
@click.option("--jobs", is_flag=True, help="Commands can run in the background; gives the tool job as well.")
@click.option("--terminals", is_flag=True, help="Commands can have a terminal; gives the tool job as well.")
@click.option("--http", is_flag=True, help="Serve several programs on loopback instead, by streamable HTTP.")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    metavar="N",
    default=PORT,
    show_default=True,
    help="With --http: the port. 0 takes one that is free.",
)
@click.option(
    "--print-config",
    type=click.Choice(list(FILES)),
    metavar=f"[{'|'.join(FILES)}]",
    help="Print the configuration of this server for a program instead, with these options.",
)
@click.pass_context
def mcp(
    ctx: click.Context,
    /,
    *,
    host: str | None,
    shell: str | None,
    cwd: str | None,
    policy: str | None,
    reach: Preset | None,
    session: bool,
    jobs: bool,
    terminals: bool,
    http: bool,
    port: int,
    print_config: str | None,
) -> None:
    """Serve the tools to one program that speaks the Model Context Protocol, on stdin and stdout.

    The server needs the extra mcp: pip install 'anyshell[mcp]'. The program is asked for the approval of each command, and asks
    its user; with --policy, only about commands that the policy does not decide. A program that cannot ask runs only commands
    that a policy allows.

    When the program ends or closes stdin, every process of its calls is stopped.

    With --http it serves until a signal comes. Each program has to show the token in the file that is named on stderr, and has
    an environment of its own.

    \b
    Examples:
      anyshell mcp
      anyshell mcp --policy workspace --jobs
      anyshell mcp --host deploy@web-1 --policy read-only
      anyshell mcp --http --session
      anyshell mcp --print-config claude --policy workspace > .mcp.json
    \b
    Exit code:
      0      the program has closed stdin
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n was sent to this program (141: stdout has no reader)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..cli.process import signals

    if not http and ctx.get_parameter_source("port") is not ParameterSource.DEFAULT:
        raise click.UsageError("--port goes with --http: without it the server is on stdin and stdout")
    decides = load_policy(policy)
    if print_config is not None:
        if http:
            raise click.UsageError("--print-config is for a server on stdin and stdout: leave --http out")
        given = {"--host": host, "--shell": shell, "--cwd": cwd, "--policy": policy, "--reach": reach}
        flags = {"--session": session, "--jobs": jobs, "--terminals": terminals}
        options = [part for name, value in given.items() if value is not None for part in (name, value)]
        options += [name for name, on in flags.items() if on]
        # -P: the client starts the server in a project, and no file of the project may be imported as a module.
        click.echo(config_of(print_config, [sys.executable, "-P", "-m", "anyshell", "mcp", *options]))
        mention(f"these lines are for {FILES[print_config]}")
        return
    try:
        import mcp as sdk  # noqa: F401 - what the rest needs
    except ImportError as error:
        why = "" if error.name == "mcp" else f" ({error})"
        raise Failure(f"anyshell mcp needs the extra mcp{why}: {INSTALL}") from error

    from .. import Environment
    from ..cli.host.reach import mention_notices, parse
    from .approval import ClientApprovals
    from .tools import ClientTools

    approvals = ClientApprovals()

    @asynccontextmanager
    async def open_tools() -> AsyncIterator[ClientTools]:
        # A terminal of this process belongs to the client: never ask a question there.
        async with Environment.detect(
            parse(host), shell=shell, cwd=cwd, policy=decides, reach=load_reach(reach)
        ) as env:
            mention_notices(env.info)
            tools = ClientTools(env, approvals, session=session, jobs=jobs, terminals=terminals)
            try:
                yield tools
            finally:
                tools.resources.close()

    async def perform(interruption: Interruption) -> int:
        if not http:
            await _serve_on_stdio(open_tools, interruption)
            return 0
        from .http import HTTPClients, serve
        from .server import make

        async with open_tools():
            pass  # report at once an error that would affect every client
        clients = HTTPClients(open_tools, approvals, stateful=session or jobs or terminals)
        await serve(make(clients), clients, port=port, tell=mention)
        return 0

    ctx.exit(signals.run(perform))


async def _serve_on_stdio(
    open_tools: Callable[[], AbstractAsyncContextManager[ClientTools]], interruption: Interruption
) -> None:
    from ..cli.process.descriptors import watch_peer
    from .server import make
    from .stdio import messages

    watch_peer(1, interruption.desert)
    async with open_tools() as tools:
        server = make(tools)
        async with messages() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
