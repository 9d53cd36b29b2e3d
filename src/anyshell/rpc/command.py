"""The command ``anyshell rpc``: its options, and the run of the server until its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..cli.options import load_reach, place_options, reach_option

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..cli.process.signals import Interruption
    from ..reach import Preset


@click.command(short_help="Serve a program in any language, by JSON lines.")
@place_options
@reach_option
@click.option("--schema", is_flag=True, help="Print the JSON schema of the lines instead.")
@click.pass_context
def rpc(
    ctx: click.Context,
    /,
    *,
    host: str | None,
    shell: str | None,
    cwd: str | None,
    reach: Preset | None,
    schema: bool,
) -> None:
    """Serve one program that writes requests to stdin and reads answers from stdout, each a JSON object on a line.

    The program may run, stream and abort commands, keep sessions and jobs, and read and write files. There is no
    approver: the program may do what you may do, or what --reach allows. When the program ends or closes stdin, all its
    processes are stopped.

    \b
    Examples:
      anyshell rpc --schema
      printf '%s\\n' '{"id":1,"method":"hello","params":{"version":1}}' | anyshell rpc
      anyshell rpc --host deploy@web-1
    \b
    Exit code:
      0      the program has closed stdin
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n was sent to this program (141: stdout has no reader)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..cli.printing import print_json
    from ..cli.process import signals

    if schema:
        from .methods import schema as line_schema

        print_json(line_schema())
        return

    async def perform(interruption: Interruption) -> int:
        from .. import Environment
        from ..cli.host.reach import mention_notices, parse
        from ..cli.process.descriptors import DescriptorReader, DescriptorWriter, watch_peer
        from .server import Server

        watch_peer(1, interruption.desert)
        writer = DescriptorWriter(1)
        watch_peer(0, writer.hurry)  # a client that has closed stdin may not read on

        async def write(line: bytes) -> None:
            await writer.write(line)
            if writer.error is not None:
                interruption.desert()

        async def read() -> AsyncIterator[bytes]:
            async for piece in DescriptorReader(0):
                yield piece
            writer.hurry()  # as above

        # A terminal of this process belongs to the client: never ask a question there.
        async with Environment.detect(parse(host), shell=shell, cwd=cwd, reach=load_reach(reach)) as env:
            mention_notices(env.info)
            await Server(env, write).serve(read())
        return 0

    ctx.exit(signals.run(perform))
