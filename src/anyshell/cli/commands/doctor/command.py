"""``anyshell doctor``: the present parts, the missing parts and how to install them, and the orphans of a killed anyshell."""

from __future__ import annotations

import os
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from ...._exceptions import AnyshellError
from ...options import host_option, json_option
from .confining import look_at_reach
from .programs import find_installer, installers, look_at_extras, look_at_programs
from .report import Finding, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .... import SSHOptions
    from ...._types import OperatingSystem
    from ....abc import Backend, ProcessInfo
    from ...process.signals import Interruption

LOOK_SECONDS = 10
"""Seconds for a program to answer `doctor`, such as git on Windows about line ends; or to end, such as an orphan."""

REAP_LOOKS = 40
"""Checks of `doctor` on an orphan that has ended; an orphan that is then still a zombie is reported as not reaped."""

REAP_LOOK_SECONDS = 0.05
"""Seconds between two checks of `doctor` on an orphan that has ended."""

_UNREAPED = "processes that outlive a command stay in the table as zombies when they have ended: pid {} does not reap them"
_INIT = "run the container with --init, or start its program by tini"

_FEW_FILES = 256
"""Descriptors below which `doctor` reports an open-file limit as a problem: a running command takes about six."""


@click.command(short_help="Find missing programs, and processes left running.")
@host_option
@click.option("--mcp", is_flag=True, help="Also start the MCP server, and call its tool as a client does.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, /, *, host: str | None, mcp: bool, as_json: bool) -> None:
    """Examine a host: the parts that anyshell found, the missing parts, and how to get them.

    With --host, each step to it is tried by itself: its name, its port, its key, the login, the shell, SFTP, and how many
    sessions it allows. The first step that fails is named, with its remedy; later steps are not tried.

    Processes of commands whose anyshell has ended are named too: that anyshell was killed (SIGKILL) before it could stop
    them, or was asked to keep them. They are found on Linux only.

    \b
    Examples:
      anyshell doctor
      anyshell doctor --json | jq '.orphans[].pid'
      anyshell doctor --host deploy@web-1
    \b
    Exit code:
      0      commands can be run
      1      there is no usable shell, or the host cannot be reached
      125    anyshell itself failed
      128+n  signal n ended it; nothing was printed
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...host.reach import parse
    from ...printing import print_json
    from ...process import signals

    report = Report()
    options = parse(host)
    if mcp and options is not None:
        raise click.UsageError("--mcp looks at the server on this machine: leave --host out")

    async def look(_: Interruption) -> int:
        if options is None:
            await _examine(report)
            if mcp and report.usable:
                await _examine_server(report)
        else:
            await _examine_elsewhere(options, report)
        return 0 if report.usable else 1

    code = signals.run(look)
    if code in (0, 1):
        if as_json:
            print_json(report)
        else:
            _print(report, host=host if options is not None else None)
    ctx.exit(code)


async def _examine(report: Report) -> None:
    from ...._environment.descriptions import programs
    from ....abc import HostQuery
    from ....backends import connect

    backend = connect()
    try:
        wanted = programs()
        info = await backend.info(HostQuery(programs=(*wanted, *installers())))
        install = find_installer(info.programs, info.os)
        await _examine_shells(backend, info.os, install, report)
        report.findings += look_at_programs(wanted, info.programs, install)
        report.findings += look_at_extras()
        report.findings += _look_at_state()
        report.findings += _look_at_path()
        report.findings += _look_at_system()
        report.findings += await look_at_reach(backend, info.os)
        if report.usable:
            report.findings += await _look_at_ends_of_lines(backend, info.os)
        report.orphans = await backend.orphans()
    finally:
        await backend.aclose()


async def _examine_server(report: Report) -> None:
    from .... import Environment
    from .server import look_at_server

    async with Environment.detect() as env:
        report.findings.append(await look_at_server(env))


async def _examine_elsewhere(options: str | SSHOptions, report: Report) -> None:
    from ....backends import connect
    from .host import examine_host

    if isinstance(options, str):
        connect(options)  # says which addresses there are
        return
    await examine_host(options, report)


async def _examine_shells(backend: Backend, os: OperatingSystem, install: str, report: Report) -> None:
    from .... import Environment
    from ....shells import how_to_install, kinds, query

    try:
        shell = (await Environment.detect(backend)).shell
    except AnyshellError as error:
        report.findings.append(
            Finding(
                "shell",
                "default",
                "problem",
                _first_line(error),
                f"{how_to_install(next(iter(kinds(os))), os, install)}; or set ANYSHELL_SHELL",
            )
        )
    else:
        report.usable = True
        report.findings.append(Finding("shell", "default", "ok", f"{shell.name} ({shell.path})"))
    for kind, expected in kinds(os).items():
        try:
            found = (await backend.info(query((), kind))).shell
        except AnyshellError as error:  # the shell that a variable names does not exist
            report.findings.append(
                Finding("shell", kind, "problem", _first_line(error), "set it right, or unset it")
            )
            continue
        if found is not None:
            report.findings.append(Finding("shell", kind, "ok", f"{found.name} ({found.path})"))
        elif expected:
            advice = how_to_install(kind, os, install)
            report.findings.append(
                Finding("shell", kind, "missing", "not found, or it does not answer", advice)
            )


def _look_at_state() -> Iterator[Finding]:
    from .... import ArtifactStore
    from ...printing import size

    store, where = ArtifactStore(), ""
    try:
        where = f"{store.directory}: "
        store.create().discard()
    except OSError as error:
        advice = "long outputs are not kept whole; set ANYSHELL_STATE_DIR to a directory of your own"
        yield Finding("state", "artifacts", "problem", f"{where}{error.strerror}", advice)
    else:
        kept = store.list()
        used, days = size(sum(entry.size for entry in kept)), store.max_age / 86400
        budget = f"{len(kept)} kept, {used} of {size(store.max_total)}, each for {days:g} days"
        yield Finding("state", "artifacts", "ok", f"{store.directory} is writable; {budget}")


def _look_at_path() -> Iterator[Finding]:
    value = os.environ.get("PATH")
    if not value:
        usual = "export PATH=/usr/local/bin:/usr/bin:/bin"
        if sys.platform == "win32":
            usual = r"$env:PATH = 'C:\Windows\System32;C:\Windows'"
        yield Finding("path", "PATH", "problem", "not set", usual)
        return
    entries = value.split(os.pathsep)
    relative = [entry for entry in entries if not os.path.isabs(entry)]
    absent = [entry for entry in entries if os.path.isabs(entry) and not os.path.isdir(entry)]
    if relative:
        yield Finding(
            "path",
            "PATH",
            "problem",
            "relative: " + ", ".join(entry or "(empty)" for entry in relative),
            "what they mean changes with the directory: remove them",
        )
    if absent:
        yield Finding("path", "PATH", "ok", "not there: " + ", ".join(absent))
    if not relative and not absent:
        yield Finding("path", "PATH", "ok", f"{len(entries)} directories")


def _look_at_system() -> Iterator[Finding]:
    if sys.platform == "win32":
        from .windows import look_at_windows

        yield from look_at_windows()
        return
    import resource

    yield _look_at_terminals()
    if sys.platform == "linux":
        yield _look_at_proc()
        yield _tried("pidfd", "processes are signalled safely", lambda: os.close(os.pidfd_open(os.getpid())))
        yield _tried(
            "prlimit",
            "processes that hide are found by a tag",
            lambda: resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE),
        )
        yield _look_at_reaping()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _FEW_FILES:
        yield Finding("system", "open files", "problem", f"only {soft} at once", "ulimit -n 1024")
    else:
        yield Finding("system", "open files", "ok", f"{soft} at once" if soft >= 0 else "unlimited")


async def _look_at_ends_of_lines(backend: Backend, system: str) -> list[Finding]:
    """Check whether git on Windows checks files out with CR LF, which bash and sh do not take as a line end."""
    if system != "windows":
        return []
    from .... import Environment

    env = await Environment.detect(backend)
    outcome = await env.run("git config --get core.autocrlf", timeout=LOOK_SECONDS)
    if outcome.exit_code != 0 or outcome.output.text.strip() != "true":
        return []
    advice = "git config --global core.autocrlf input, where scripts for bash are checked out"
    return [Finding("system", "ends of lines", "missing", "git checks files out with CR LF", advice)]


def _look_at_terminals() -> Finding:
    from ...._environment import offers_terminals

    if not offers_terminals():
        return Finding(
            "system",
            "terminal",
            "missing",
            "ANYSHELL_NO_PTY is set: commands get none",
            "unset ANYSHELL_NO_PTY",
        )
    posix: Any = os  # this function is not called on Windows
    try:
        for fd in posix.openpty():
            os.close(fd)
    except OSError as error:
        return Finding("system", "terminal", "problem", str(error.strerror), "mount devpts at /dev/pts")
    return Finding("system", "terminal", "ok", "commands that ask for one can have it")


def _look_at_proc() -> Finding:
    """Check whether /proc shows the processes of this process's own pid namespace."""
    advice = "what leaves the session of its command may outlive a stop, and orphans are not seen; mount -t proc proc /proc"
    try:
        shown = os.readlink("/proc/self")
    except OSError:
        return Finding("system", "proc", "problem", "/proc shows no processes", advice)
    if shown != str(os.getpid()):
        return Finding(
            "system", "proc", "problem", "/proc shows the processes of another pid namespace", advice
        )
    return Finding("system", "proc", "ok", "processes that hide are found in /proc")


def _look_at_reaping() -> Finding:
    """Check whether an orphan is reaped when it has ended, by making an orphan.

    The parent of the orphan is pid 1 or a subreaper (`prctl(2)`). In a container, pid 1 may be any program, and may wait only
    for its own children.
    """
    import subprocess
    import time

    program = ("/bin/sh", "-c", "(sleep 0 >/dev/null 2>&1 & echo $!)")
    try:
        said = subprocess.check_output(
            program, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LOOK_SECONDS
        )
        orphan = int(said)
    except (OSError, subprocess.SubprocessError, ValueError):
        what = "it was not seen whether ended processes are reaped: /bin/sh cannot start a program"
        return Finding(
            "system", "reaping", "problem", what, "end some of this user's processes, or raise ulimit -u"
        )
    as_zombie = 0
    # On a busy machine, the orphan may need some time to end.
    for _ in range(round(LOOK_SECONDS / REAP_LOOK_SECONDS) + REAP_LOOKS):
        try:
            with open(f"/proc/{orphan}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):  # the process is gone, perhaps during the read
            return Finding("system", "reaping", "ok", "processes that have ended are taken from the table")
        as_zombie += state == b"Z"
        if as_zombie == REAP_LOOKS:
            return Finding("system", "reaping", "problem", _UNREAPED.format(parent.decode()), _INIT)
        time.sleep(REAP_LOOK_SECONDS)
    what = f"it was not seen whether ended processes are reaped: sleep 0 still runs after {LOOK_SECONDS} s"
    return Finding("system", "reaping", "problem", what, "run doctor again when the machine has less to do")


def _tried(name: str, purpose: str, call: Callable[[], object]) -> Finding:
    """Check whether the kernel, and a sandbox around this process if any, allow a system call."""
    try:
        call()
    except AttributeError:
        return Finding(
            "system", name, "problem", "this Python does not have it", "use another build of Python"
        )
    except OSError as error:
        detail = error.strerror or str(error)
        return Finding("system", name, "problem", detail, "needs Linux 5.3, and a sandbox that allows it")
    return Finding("system", name, "ok", purpose)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


_TITLES = {
    "shell": "Shells",
    "program": "Programs",
    "extra": "Extras of anyshell",
    "host": "The way to the host",
    "way": "The way to the host",
}
_COLOURS = {"ok": "green", "missing": "yellow", "problem": "red", "skipped": "bright_black"}


def _title(text: str, *, apart: bool = True) -> None:
    click.echo("\n" * apart + click.style(f"{text}:", bold=True))


def _print(report: Report, host: str | None) -> None:
    from ...printing import printable

    width = max(len(finding.name) for finding in report.findings)
    margin = " " * (width + 11)
    topics = groupby(report.findings, key=lambda finding: _TITLES.get(finding.topic, "This machine"))
    for number, (topic, group) in enumerate(topics):
        _title(topic, apart=number > 0)
        for finding in group:
            verdict = click.style(f"{finding.verdict:<8}", fg=_COLOURS[finding.verdict])
            click.echo(f"{verdict} {finding.name:<{width}}  {printable(finding.detail)}")
            if finding.advice:
                click.echo(f"{margin}{click.style('to do:', fg='yellow')} {printable(finding.advice)}")
            if finding.command:
                click.echo(f"{margin}{click.style(printable(finding.command), bold=True)}")
    if host is not None:
        return  # the orphans on that host, and the anyshell that started them, cannot be known from here
    if not report.orphans:
        verdict, nothing = "ok", "nothing still runs of a command whose anyshell has ended"
        if sys.platform != "linux":
            nothing = "only on Linux can it be known what a killed anyshell left running"
        elif any(finding.name == "proc" and finding.verdict == "problem" for finding in report.findings):
            verdict, nothing = "skipped", "what a killed anyshell left running cannot be seen without /proc"
        _title("What was left running")
        click.echo(click.style(f"{verdict:<8}", fg=_COLOURS[verdict]) + f" {'orphans':<{width}}  {nothing}")
        return
    _title("Still running, though the anyshell that started it has ended (killed, or asked to keep it)")
    for process in report.orphans:
        click.echo(f"  {process.pid:>8}  {printable(process.name)}  {_command_line(process)}".rstrip())
    click.echo("Some of these may still be in use. To stop one: kill PID")


def _command_line(process: ProcessInfo, most: int = 80) -> str:
    """Return the command line of a process, cut to `most` characters; empty if the command line cannot be read."""
    import psutil

    from ...printing import printable

    try:
        words = psutil.Process(process.pid).cmdline()
    except psutil.Error:
        return ""
    text = printable(" ".join(words))
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
