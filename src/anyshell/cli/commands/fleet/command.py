"""``anyshell fleet``: one command on many hosts, shown live, and summed up in groups of hosts at the end."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ...failure import Failure
from ...options import (
    UP_TO_COMMAND,
    Directory,
    Duration,
    WholeNumber,
    complete_file,
    cwd_option,
    env_option,
    grace_option,
    left_behind_option,
    load_reach,
    prefix_option,
    reach_option,
    shell_option,
    silence_option,
    snapshot_option,
)
from .hosts import complete_hosts, read_hosts
from .request import FleetRequest
from .views import EventsView, FleetView, LinesView, Out, RosterView

if TYPE_CHECKING:
    from ...process.signals import Interruption

SOME_FAILED = 1  # no bound
"""The exit code when the command did not succeed on every host, for whatever reason."""

LARGEST_STDIN = 16 * 1024 * 1024
"""Bytes of stdin that `anyshell fleet --stdin` gives to every host, held in memory; more is an error."""

_STDIN, _STDOUT = range(2)


@click.command(short_help="Run a command on many hosts.", context_settings=UP_TO_COMMAND)
@click.option(
    "--hosts",
    "lists",
    multiple=True,
    metavar="HOST,HOST…",
    shell_complete=complete_hosts,
    help="The hosts: user@host, aliases of ~/.ssh/config, ssh://user@host:port/directory, or local. May be given several "
    "times.",
)
@click.option(
    "--hosts-file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A file with one host a line; '#' begins a comment; '-' is stdin. May be given several times.",
    shell_complete=complete_file,
)
@click.option(
    "--parallel",
    type=WholeNumber(1),
    metavar="N",
    help="Hosts to run on in parallel. Default: 32.",
)
@click.option(
    "--batch",
    type=WholeNumber(1),
    metavar="N",
    help="Hosts to start together; the next N start when all of these have ended. Default: a host starts whenever one "
    "has ended.",
)
@click.option(
    "--fail-fast",
    is_flag=True,
    help="Start on no further host after the first failure. Hosts that are running go on.",
)
@click.option(
    "--connect-timeout",
    type=Duration(),
    help="Time to reach a host, such as 30 or 1m; after that the host has failed. Default: 60.",
)
@click.option(
    "--timeout",
    type=Duration(),
    help="Stop the command and its processes on a host after this time, such as 90s or 5m. Default: none.",
)
@silence_option
@grace_option
@shell_option
@cwd_option
@env_option
@click.option(
    "--stdin",
    "reads_stdin",
    is_flag=True,
    help="Read all of stdin, and give the same input to the command on every host. Without this option the "
    "command reads end-of-file.",
)
@click.option(
    "--interactive",
    is_flag=True,
    help="Leave pager, editor, prompt, colour and progress variables as they are on the hosts.",
)
@snapshot_option
@prefix_option
@reach_option
@left_behind_option
@click.option(
    "-o",
    "--output-dir",
    "directory",
    metavar="DIRECTORY",
    type=Directory(),
    help="Also write the output of each host to a file with its name in this directory. A missing directory is"
    " made.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print each event as it happens: one JSON object a line."
)
@click.option("-q", "--quiet", is_flag=True, help="Show the output, and at the end only the failures.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_file)
@click.pass_context
def fleet(ctx: click.Context, /, **options: Any) -> None:
    """Run COMMAND on many hosts in parallel, in a fresh shell on each.

    One argument is text in the shell's language; several are a program and its arguments, taken literally.
    Options of anyshell end at the first word of COMMAND.

    On a terminal, a line for each host shows what it does, for how long, and the last line that it printed. In a pipe or a
    file, each line is printed as it comes, behind the name of its host. A summary at the end has one entry for all hosts with
    the same ending and the same output.

    A host that cannot be reached, hangs, dies, or has an unknown key holds up no other host. No questions are asked: your
    keys must be in files without a passphrase or in an agent, and the keys of hosts in known_hosts.

    Ctrl-C stops the command, and everything that it started, on every host, and verifies that. A host on which it cannot be
    verified is named. A second Ctrl-C skips the grace.

    \b
    Examples:
      anyshell fleet --hosts web-1,web-2,db-1 -- uptime
      anyshell fleet --hosts-file hosts.txt --timeout 60 -- 'df -h / | tail -1'
      anyshell fleet --hosts-file hosts.txt --output-dir logs -- journalctl -b
      anyshell fleet --hosts-file hosts.txt --batch 5 --fail-fast -- systemctl restart app
      anyshell fleet --hosts local,web-1 --json -- uname -r | jq -r 'select(.event == "result").host'
    \b
    Exit code:
      0      it exited with 0 on every host
      1      it failed on one or more, was not started there, or may still run there
      2      wrong usage, a bad line of a file with hosts among it: nothing was contacted
      125    anyshell itself failed, or could not write to stdout
      128+n  signal n was sent to this program (130: Ctrl-C; 141: stdout has no reader any more)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...process import signals

    request = FleetRequest(**options)
    if len(request.command) == 1 and request.command[0] and not request.command[0].strip(" \t\n"):
        raise click.BadParameter("it is blank: give a command", param_hint="COMMAND")
    hosts = read_hosts(request)

    async def perform(interruption: Interruption) -> int:
        return await _perform(request, hosts, interruption)

    ctx.exit(signals.run(perform))


async def _perform(request: FleetRequest, hosts: list[str], interruption: Interruption) -> int:
    from .... import Fleet, OutputLimits
    from ....fleet import CONNECT_SECONDS, PARALLELISM
    from ...process.descriptors import DescriptorWriter, watch_peer

    # Otherwise asyncssh's warnings would be printed between anyshell's messages.
    logging.getLogger("asyncssh").addHandler(logging.NullHandler())
    stdin = await _read_stdin() if request.reads_stdin else None
    out = Out(DescriptorWriter(_STDOUT))
    live = not request.as_json and not request.quiet and _can_draw()
    shown_at_once = not request.as_json and not live
    began = time.monotonic()
    try:
        made = Fleet(
            hosts,
            parallelism=request.parallel or PARALLELISM,
            batch=request.batch,
            stop_on_failure=request.fail_fast,
            connect_timeout=request.connect_timeout or CONNECT_SECONDS,
            shell=request.shell,
            cwd=request.cwd,
            interactive=request.interactive,
            # Output that is shown as it comes need not be kept as well.
            limits=OutputLimits(head=0, tail=0) if shown_at_once else None,
            artifacts=None if shown_at_once else "default",
            snapshot=request.snapshot,
            prefix=request.prefix,
            reach=load_reach(request.reach),
        )
        view: FleetView
        view = (
            EventsView(out)
            if request.as_json
            else (RosterView if live else LinesView)(request, made.hosts, out)
        )
        async with made:
            run = made.run(
                # Text or words, and no function of a host's facts: for a function, all facts would have to be queried.
                request.command[0] if len(request.command) == 1 else request.command,
                env=dict(request.variables),
                stdin=stdin,
                timeout=request.timeout,
                silence=request.silence,
                grace=request.grace,
                left_behind=request.left_behind,
                stdout=request.directory,
                listener=view.hear,
                observer=view.observe,
            )

            def stop() -> None:
                run.cancel()
                out.hurry()

            interruption.stop = stop
            out.on_broken = lambda: interruption.desert() if out.is_deserted else stop()
            watch_peer(_STDOUT, interruption.desert)
            view.begin(run)
            try:
                async for result in run:
                    await view.add(result)
            finally:
                await view.stop()
        code = SOME_FAILED if view.failed else 0
        if interruption.number is not None:
            code = interruption.exit_code
        await view.end(time.monotonic() - began, code)
        # After a signal, skip the check: a closed terminal cannot be written to, and has reported its end by a signal.
        if interruption.number is None:
            out.check()
        return code
    finally:
        out.close()


async def _read_stdin() -> bytes:
    from ...process.descriptors import DescriptorReader

    reader = DescriptorReader(_STDIN)
    data = bytearray()
    try:
        async for piece in reader:
            data += piece
            if len(data) > LARGEST_STDIN:
                raise Failure(
                    f"stdin has more than {LARGEST_STDIN} bytes, which would be held for every host: "
                    "copy a file there instead (anyshell cp)"
                )
    finally:
        reader.close()
    if reader.error is not None:
        raise Failure(f"cannot read stdin: {reader.error.strerror}")
    return bytes(data)


def _can_draw() -> bool:
    """Whether stdout is a terminal on which the cursor can be moved."""
    if not os.isatty(_STDOUT) or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return False
    if sys.platform == "win32":
        from rich.console import Console

        return not Console().legacy_windows
    return bool(os.environ.get("TERM"))
