"""PowerShell for Windows, as tests on Linux start it: data passes through unchanged."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import psutil

from .processes import living, unique_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from .wine.windows import Windows

OPTIONS = ("-NoProfile", "-NonInteractive", "-InputFormat", "None", "-Command")


def test_powershell_has_the_directory_and_variables_of_its_caller(
    powershell: Windows, tmp_path: Path
) -> None:
    text = "$PSVersionTable.PSVersion.ToString(); $PWD.Path; $env:A_VARIABLE; $env:PATH; exit 3"
    done = subprocess.run(
        (powershell.pwsh, *OPTIONS, "[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false); " + text),
        cwd=tmp_path,
        env={**os.environ, "A_VARIABLE": "é b"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    version, directory, variable, path = done.stdout.decode().splitlines()
    assert done.returncode == 3
    assert version == "7.6.2"
    assert directory == "Z:" + str(tmp_path).replace("/", "\\")
    assert variable == "é b"
    assert path.lower().startswith(
        "c:\\ps7;c:\\windows\\system32;"
    )  # PowerShell adds its own directory first
    assert done.stderr == b""


def test_powershell_under_wine_gets_arguments_unchanged(powershell: Windows) -> None:
    words = ["", "a b", 'a"b', "a\\", "a b\\", '\\"', "é☃😀", "line\nfeed", "*", "$x", "%PATH%", "\t"]
    done = subprocess.run(
        powershell.command(powershell.arguments, *words),
        env=powershell.environment(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert [bytes.fromhex(line[:-1]).decode() for line in done.stdout.decode().splitlines()] == words


def test_bytes_pass_through_powershell_unchanged(powershell: Windows, tmp_path: Path) -> None:
    data = bytes(range(256)) * 4000
    text = (
        "$in = [Console]::OpenStandardInput(); $out = [Console]::OpenStandardOutput(); $in.CopyTo($out); "
        "$err = [Console]::OpenStandardError(); $err.Write([byte[]](0, 255, 10), 0, 3)"
    )
    done = subprocess.run(
        (powershell.pwsh, *OPTIONS, text), input=data, capture_output=True, check=False, timeout=60
    )
    assert done.stdout == data
    assert done.stderr == b"\x00\xff\n"


def test_killed_powershell_takes_its_descendants_along(powershell: Windows) -> None:
    seconds = unique_seconds()
    text = f"""& "$PSHOME\\pwsh.exe" -NoProfile -Command "'ready'; Start-Sleep {seconds}" | Out-Host"""
    with subprocess.Popen((powershell.pwsh, *OPTIONS, text), stdout=subprocess.PIPE) as process:
        # PowerShell sleeps by now. Earlier, a process that is only being created counts as living, with the command line of the
        # process that creates it, and Wine 8 may miss the new process when it ends those of a job.
        assert process.stdout is not None
        assert process.stdout.readline().rstrip() == b"ready"
        assert len(living(seconds)) == 3  # the starting program, PowerShell, and the sleeping program
        process.kill()
        assert process.stdout.read() == b""
    while living(seconds):
        pass  # Wine ends them one by one


def test_process_left_running_by_powershell_goes_on(powershell: Windows) -> None:
    seconds = unique_seconds()
    text = f'Start-Process "$PSHOME\\pwsh.exe" -WindowStyle Hidden -ArgumentList "-Command Start-Sleep {seconds}"'
    subprocess.run((powershell.pwsh, *OPTIONS, text), check=True, timeout=60, stdin=subprocess.DEVNULL)
    (line,) = living(seconds)
    psutil.Process(int(line.split()[0])).kill()
