"""``anyshell run``: the options, the checks for conflicts between options, and the run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ...host.reach import Target, notices
from ...options import (
    UP_TO_COMMAND,
    CellCount,
    Size,
    command_options,
    complete_file,
    json_option,
    left_behind_option,
    prefix_option,
    reach_option,
    record_options,
    snapshot_option,
)
from .live import Run
from .request import RunRequest

if TYPE_CHECKING:
    from ...process.signals import Interruption

_STDIN, _STDOUT, _STDERR = range(3)


@click.command(short_help="Run a command, and exit with its exit code.", context_settings=UP_TO_COMMAND)
@command_options
@click.option(
    "--interactive",
    is_flag=True,
    help="Also leave pager, editor and prompt variables as they are. Otherwise these are set so that no "
    "program waits for a person. This option gives the command no terminal: --pty does.",
)
@click.option(
    "--unattended",
    is_flag=True,
    help="Set TERM=dumb, CI, NO_COLOR and similar variables as for a model, also on a terminal. This is the "
    "default with --background, and if neither stdout nor stderr is a terminal.",
)
@click.option(
    "--pty",
    is_flag=True,
    help="Give the command a terminal: your own, if stdin and stdout are a terminal; otherwise a new one of 80"
    " columns and 24 rows, on which stdin is typed, followed by ^D.",
)
@click.option(
    "--columns",
    type=CellCount(),
    help="With --pty: columns of the terminal, instead of those of yours.",
)
@click.option("--rows", type=CellCount(), help="With --pty: rows of the terminal, instead of those of yours.")
@snapshot_option
@prefix_option
@reach_option
@left_behind_option
@click.option(
    "--background",
    is_flag=True,
    help="Start the command as a job that outlives anyshell and the connection, print its id, and exit. The "
    "job has no input; its output is kept. See 'anyshell jobs'.",
)
@record_options
@click.option(
    "--effects",
    is_flag=True,
    help="At the end, list the files that the command created, changed, deleted and renamed in its directory.",
)
@click.option("--diff", is_flag=True, help="As --effects, and show the changed lines of text files.")
@click.option(
    "--trial",
    is_flag=True,
    help="Run the command on a layer above its directory, show the changes, and ask whether to make them real.",
)
@click.option(
    "--commit/--discard",
    default=None,
    help="With --trial: make the changes real, or discard them, without a question.",
)
@click.option(
    "--checkpoint",
    is_flag=True,
    help="Save the state of the files in the directory first, so that 'anyshell undo' can restore it.",
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Show no status line and no notices of the host. The end of the command is still reported.",
)
@json_option
@click.option(
    "--limit",
    type=Size(),
    help="Show at most this many bytes of the output, such as 8k, after the end of the command: the start, the"
    " end, and the lines between that report errors. A longer output is kept whole, and the text says "
    "where.",
)
@click.option(
    "--split-stderr",
    is_flag=True,
    help="With --json: keep stderr apart from stdout; the order between the two is lost.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_file)
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    """Run COMMAND in a fresh shell, show its output as it comes, and exit with its exit code.

    One argument is text in the shell's language; several are a program and its arguments, taken literally.
    Options of anyshell end at the first word of COMMAND.

    A stdin that is not a terminal is forwarded; in a loop that reads it, add '< /dev/null'. With a terminal as
    stdin, the command reads end-of-file at once.

    With --pty on a terminal, the command has your terminal: every key goes to the command, Ctrl-C and Ctrl-Z too. A command
    that heeds no key is ended by --timeout, by a 'kill' of anyshell from elsewhere, or by closing the window. The terminal is
    put back as it was, however the command ends. Only SIGKILL to anyshell prevents that: type 'reset' then.

    However it ends, whatever the command started is stopped or reported. A timeout, a reader of stdout or stderr
    that goes away, or a signal (Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 and others) stops everything that it started. A
    second signal skips the grace. anyshell can stop nothing after SIGKILL: on Linux a helper then does, and
    elsewhere 'anyshell doctor' finds what still runs.

    On a terminal, a command that takes longer than 2 seconds has a status line below its output: for how long it has
    run, how much it has printed, and the last line of that. It is gone when the command ends, and is not shown in a
    pipe, nor with --pty.

    With --json nothing is shown live; the outcome of the command is printed as one object. When anyshell itself fails,
    nothing is printed on stdout, and one message on stderr.

    \b
    Examples:
      anyshell run -- 'ls | wc -l'
      anyshell run -- git commit -m 'one argument, with $ and "quotes"'
      anyshell run --timeout 60 --env CI=1 --cwd web -- npm test
      anyshell run --host deploy@web-1 -- uptime
      tar c src | anyshell run -- 'tar t | sort' | head -3
      anyshell run --background -- npm run dev
      anyshell run --pty --host web-1 -- vim /etc/hosts
      anyshell run --pty --record demo.cast -- top
      anyshell run --trial -- make fix
      anyshell run --json -- make | jq .exit_code   # nothing when anyshell itself fails

    \b
    Exit code:
      the command's own
      2      wrong usage
      124    the timeout was over, also when only a reader had not taken the rest in time; or
             nothing was printed for as long as --silence says
      125    anyshell itself failed, could not write to stdout or stderr, or could not
             reach the host: nothing was started there
      128+n  signal n ended the command, or was sent to this program
             (141: stdout or stderr has no reader any more)
      255    the connection to the host was lost; the command may still run there
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...process import signals

    request = RunRequest(**options)
    if request.background:
        _check_background(ctx)
    _check_pty(request)
    if request.unattended and (request.interactive or request.pty):
        other = "--interactive" if request.interactive else "--pty"
        raise click.UsageError(f"--unattended does not go with {other}: leave one of them out")
    _check_trial(request)
    if request.record is None and (request.record_input or request.record_format is not None):
        name = "--record-input" if request.record_input else "--record-format"
        raise click.UsageError(f"{name} goes with --record FILE")
    if request.split_stderr and not request.as_json:
        raise click.UsageError(
            "--split-stderr goes with --json; live, stderr is apart when it is another file"
        )

    if len(request.command) == 1 and request.command[0] and not request.command[0].strip(" \t\n"):
        raise click.BadParameter("it is blank: give a command", param_hint="COMMAND")

    if request.background:
        from .background import start

        start(request)
        return

    async def perform(interruption: Interruption) -> int:
        return await _perform(request, interruption)

    ctx.exit(signals.run(perform))


def _check_trial(request: RunRequest) -> None:
    """Refuse options that conflict with a trial, and a question that no person can answer."""
    if request.checkpoint and request.background:
        raise click.UsageError(
            "--checkpoint does not go with --background: anyshell does not stay to see the end of the command"
        )
    if not request.trial:
        if request.commit is not None:
            raise click.UsageError("--commit and --discard go with --trial")
        return
    for name, value in (
        ("--pty", request.pty),
        ("--background", request.background),
        ("--record", request.record is not None),
        ("--left-behind keep", request.left_behind == "keep"),
    ):
        if value:
            raise click.UsageError(f"--trial does not go with {name}: leave one of them out")
    if request.commit is None:
        from ...host.person import can_be_asked

        if not can_be_asked():
            raise click.UsageError("--trial asks on a terminal, and there is none: add --commit or --discard")


def _check_pty(request: RunRequest) -> None:
    """Refuse options that conflict with a terminal, and options that need a terminal if there is none."""
    if request.scan is not None and (request.pty or request.background):
        name, other = "--diff" if request.diff else "--effects", "--pty" if request.pty else "--background"
        raise click.UsageError(f"{name} does not go with {other}: leave one of them out")
    if not request.pty:
        for name, value in (("--columns", request.columns), ("--rows", request.rows)):
            if value is not None:
                raise click.UsageError(f"{name} goes with --pty: without it the command has no terminal")
        return
    if request.split_stderr:
        raise click.UsageError(
            "--split-stderr does not go with --pty: on a terminal stdout and stderr are one"
        )
    if request.background:
        raise click.UsageError(
            "--pty does not go with --background: a background job has no terminal to type on; in tmux on the host a "
            "program keeps its terminal"
        )
    if sys.platform == "win32" and not request.held and _has_person():
        raise click.UsageError(
            "--pty does not give a command your own console, on Windows: leave it out; or redirect stdin or stdout, and "
            "the command has a terminal that is not shown"
        )


def _check_background(ctx: click.Context) -> None:
    """Refuse options that a job cannot have, and a stdin with input."""
    from ...process.descriptors import has_input

    for name in ("timeout", "silence", "grace", "left_behind", "split_stderr"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"--{option} does not go with --background: anyshell does not stay to watch the job; "
                "'anyshell jobs stop' ends a job"
            )
    if ctx.params["limit"] is not None:
        raise click.UsageError(
            "--limit does not go with --background: 'anyshell jobs tail' shows what the job printed"
        )
    if ctx.params["record"] is not None:
        raise click.UsageError(
            "--record does not go with --background: anyshell does not stay to record; 'anyshell jobs tail' shows what "
            "the job printed"
        )
    if has_input(_STDIN):
        raise click.UsageError("with --background nothing is read from stdin: add '< /dev/null'")


async def _perform(request: RunRequest, interruption: Interruption) -> int:
    from .... import OutputLimits
    from ...process.descriptors import DescriptorWriter, same_file, tell

    way = Target(request.host)
    async with request.detect(
        way,
        # Output that is shown live need not be kept as well.
        limits=OutputLimits(budget=request.limit) if request.held else OutputLimits(head=0, tail=0),
        artifacts="default" if request.held else None,
    ) as env:
        stdout = DescriptorWriter(_STDOUT)
        stderr = stdout if same_file(_STDOUT, _STDERR) else DescriptorWriter(_STDERR)
        try:
            if not request.quiet:
                await tell(notices((*env.info.notices, *env.snapshot_notices)))
            if sys.platform != "win32" and request.pty and not request.held and _has_person():
                from .person import PersonRun

                with way.undisturbed():
                    return await PersonRun(request, env, interruption, stdout, stderr).perform()
            kind: type[Run] = Run
            if request.trial:
                from .trial import TrialRun as kind  # noqa: N813 - one of two
            start = await env.checkpoint() if request.checkpoint else None
            try:
                return await kind(request, env, interruption, stdout, stderr, way).perform()
            finally:
                if start is not None:
                    await env.checkpoint(since=start)
        finally:
            stdout.close()
            stderr.close()


def _has_person() -> bool:
    """Whether a person is at this program's terminal, so that a command can use that terminal in place of this program."""
    return os.isatty(_STDIN) and os.isatty(_STDOUT)
