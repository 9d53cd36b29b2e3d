"""``anyshell mcp``: the options, and the end of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..cli.failure import Failure
from ..cli.options import cwd_option, host_option, load_policy, policy_option, shell_option

if TYPE_CHECKING:
    from .. import Policy
    from ..cli.process.signals import Interruption

INSTALL = "python -m pip install 'anyshell[mcp]', or '.[mcp]' in a clone"


@click.command(short_help="Serve the tools to programs that speak MCP.")
@host_option
@shell_option
@cwd_option
@policy_option
@click.option(
    "--session", is_flag=True, help="Commands share one shell, which keeps its directory and variables."
)
@click.option("--jobs", is_flag=True, help="Commands can run in the background; gives the tool job as well.")
@click.option("--terminals", is_flag=True, help="Commands can have a terminal; gives the tool job as well.")
@click.pass_context
def mcp(
    ctx: click.Context,
    /,
    *,
    host: str | None,
    shell: str | None,
    cwd: str | None,
    policy: str | None,
    session: bool,
    jobs: bool,
    terminals: bool,
) -> None:
    """Serve the tools to one program that speaks the Model Context Protocol, on stdin and stdout.

    It needs the extra mcp: pip install 'anyshell[mcp]'. The program is asked for the approval of each command, and asks its
    user; with --policy it is asked only about what that does not decide. A program that cannot ask has what a policy allows.

    When the program ends or closes stdin, all that its calls have started is stopped.

    \b
    Examples:
      anyshell mcp
      anyshell mcp --policy workspace --jobs
      anyshell mcp --host deploy@web-1 --policy read-only
    \b
    Exit code:
      0      the program has closed stdin
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n was sent to this program (141: stdout has no reader)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..cli.process import signals

    decides = load_policy(policy)
    try:
        import mcp as sdk  # noqa: F401 - what the rest needs
    except ImportError as error:
        raise Failure(f"anyshell mcp needs the extra mcp: {INSTALL}") from error

    async def perform(interruption: Interruption) -> int:
        await _serve(
            interruption,
            host=host,
            shell=shell,
            cwd=cwd,
            policy=decides,
            session=session,
            jobs=jobs,
            terminals=terminals,
        )
        return 0

    ctx.exit(signals.run(perform))


async def _serve(
    interruption: Interruption,
    *,
    host: str | None,
    shell: str | None,
    cwd: str | None,
    policy: Policy | None,
    session: bool,
    jobs: bool,
    terminals: bool,
) -> None:
    from .. import Environment
    from ..cli.host.reach import mention_notices, parse
    from ..cli.process.descriptors import watch_reader
    from .approval import ClientApprovals
    from .server import make
    from .stdio import messages
    from .tools import ClientTools

    watch_reader(1, interruption.desert)
    # The terminal, if there is one, is the client's: no question is asked there.
    async with Environment.detect(parse(host), shell=shell, cwd=cwd, policy=policy) as env:
        mention_notices(env.info)
        tools = ClientTools(env, ClientApprovals(), session=session, jobs=jobs, terminals=terminals)

        async def its_own(_: object) -> ClientTools:
            return tools

        server = make(its_own)
        try:
            async with messages() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            tools.resources.close()
