"""Places of shells on Windows, and the text that reaches bash: tested on Windows, or under Wine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from anyshell import Environment, InvalidCommand, ShellNotFound
from anyshell.abc import ShellInfo
from anyshell.shells import SHELLS, candidates
from anyshell.shells.windows import LONGEST_COMMAND_LINE, LONGEST_FOR_MSYS2, units

from .conftest import missing

if sys.platform != "win32":
    pytest.skip("Windows has other shells, in other places", allow_module_level=True)
assert sys.platform == "win32"

import winreg

from anyshell.backends.local.windows import shells as windows_shells
from anyshell.backends.local.windows.shells import find_shell, starts_wsl

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio

PWSH = shutil.which("pwsh.exe") or ""


@pytest.fixture(scope="module")
def bash() -> ShellInfo:
    """Git for Windows' own bash. Under Wine it cannot start a second process."""
    path = os.environ.get("ANYSHELL_BASH") or r"C:\Program Files\Git\bin\bash.exe"
    if not Path(path).exists():
        missing("Git for Windows", "winget install Git.Git, or ANYSHELL_BASH")
    return ShellInfo("bash", path, "5.2")


def run(info: ShellInfo, text: str, script: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Start the command that the dialect names."""
    launch = SHELLS[info.kind].launch(info, text)
    where = {}
    if launch.script is not None:
        assert script is not None
        script.write_bytes(launch.script.encode())
        where["ANYSHELL_SCRIPT"] = str(script)
    return subprocess.run(
        launch.argv,
        env={**os.environ, **where},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )


# # --- requests for a shell -------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [None, "pwsh", "PWSH.EXE", "the path", "another way to write it"])
async def test_powershell_is_found_by_every_name(request_: str | None) -> None:
    if not PWSH:
        missing("PowerShell", "winget install Microsoft.PowerShell")
    names = {
        "the path": PWSH,
        "another way to write it": PWSH.upper().replace("\\", "/").removesuffix(".EXE"),
    }
    env = await Environment.detect(shell=names.get(request_ or "", request_))
    await env.aclose()
    assert (env.shell.kind, env.os) == ("pwsh", "windows")
    assert env.shell.path.lower() == PWSH.lower()


async def test_environment_variable_chooses_the_shell(
    monkeypatch: pytest.MonkeyPatch, bash: ShellInfo
) -> None:
    monkeypatch.setenv("ANYSHELL_SHELL", bash.path.replace("\\", "/"))
    env = await Environment.detect()
    await env.aclose()
    assert (env.shell.kind, env.shell.path) == ("bash", bash.path)
    assert re.match(r"5\.\d", env.shell.version)


PLACES = ("ProgramW6432", "ProgramFiles", "ProgramFiles(x86)", "LOCALAPPDATA", "USERPROFILE", "ProgramData")
"""Variables that name usual places of programs."""


async def test_no_default_is_taken_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("pwsh.exe", "bash.exe"):
        _stub(tmp_path / name)
    _nowhere(monkeypatch, tmp_path)
    with pytest.raises(ShellNotFound, match=r"winget install Microsoft\.PowerShell") as caught:
        await Environment.detect()
    tried = "\n".join(caught.value.tried)
    assert f"{tmp_path}\\pwsh.exe: it runs, but does not answer as pwsh does" in tried
    assert f"{tmp_path}\\bash.exe: it runs, but does not answer as bash does" in tried


async def test_missing_wsl_error_has_an_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"C:\no such directory")
    with pytest.raises(ShellNotFound, match="wsl --install"):
        await Environment.detect(shell="wsl")


# # --- places of bash -------------------------------------------------------------------------------------------


def _stub(path: Path) -> Path:
    """A program that exits with 0 without the answer of a shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(os.environ["SYSTEMROOT"]) / "System32" / "hostname.exe", path)
    return path


def _nowhere(monkeypatch: pytest.MonkeyPatch, *path: Path) -> None:
    """Leave only these directories, on PATH, as places to search."""
    for name in (*PLACES, "SystemDrive"):
        monkeypatch.setenv(name, r"C:\no such directory")
    for name in ("ANYSHELL_BASH", "MSYSTEM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", ";".join(map(str, path)))


async def _says_nothing(argv: Sequence[str]) -> str:
    return ""


GITS = [
    (r"cmd\git.exe", r"bin\bash.exe"),
    (r"cmd\git.exe", r"usr\bin\bash.exe"),
    (r"bin\git.exe", r"bin\bash.exe"),
    (r"mingw64\bin\git.exe", r"usr\bin\bash.exe"),
    (r"clangarm64\bin\git.exe", r"bin\bash.exe"),
    (r"usr\bin\git.exe", r"usr\bin\bash.exe"),
]
"""The places of git.exe and bash.exe: Git for Windows, its portable form and its SDK; MSYS2; Cygwin."""


@pytest.mark.parametrize(("git", "program"), GITS)
async def test_bash_is_found_by_each_git_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, git: str, program: str
) -> None:
    first, second = tmp_path / "A Git", tmp_path / "an other"
    for top in (first, second):
        _stub(top / git)
        _stub(top / program)
    _nowhere(monkeypatch, tmp_path / "gone", (first / git).parent, (second / git).parent)
    found = [each.lower() for each in await find_shell("bash", _says_nothing)]
    assert found[:2] == [str(first / program).lower(), str(second / program).lower()]


async def test_git_is_asked_for_its_place_behind_a_shim(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The small programs that Scoop and Chocolatey put on PATH are such shims."""
    git = _stub(tmp_path / "shims" / "git.exe")
    real = _stub(tmp_path / "apps" / "git" / "bin" / "bash.exe")
    _nowhere(monkeypatch, git.parent)
    asked = []

    async def ask(argv: Sequence[str]) -> str:
        asked.append(argv)
        return f"{tmp_path.as_posix()}/apps/git/mingw64/libexec/git-core"

    assert await find_shell("bash", ask) == (str(real),)
    assert asked == [(str(git), "--exec-path")]


@pytest.mark.parametrize("answer", ["", "fatal: no", "C:\\", r"C:\libexec\git-core", "\\\\", "a\0b"])
async def test_nonsense_answer_of_git_finds_no_bash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str
) -> None:
    _nowhere(monkeypatch, _stub(tmp_path / "git.exe").parent)

    async def ask(argv: Sequence[str]) -> str:
        return answer

    assert await find_shell("bash", ask) == ()


async def test_world_writable_directory_above_git_is_not_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git = _stub(tmp_path / "tools" / "git" / "git.exe")
    for directory in (git.parent, git.parents[1], git.parents[2]):
        _stub(directory / "bin" / "bash.exe")
        _stub(directory / "usr" / "bin" / "bash.exe")
    _nowhere(monkeypatch, git.parent)
    assert await find_shell("bash", _says_nothing) == ()


@pytest.mark.parametrize("view", [winreg.KEY_WOW64_64KEY, winreg.KEY_WOW64_32KEY])
async def test_bash_is_found_where_the_installer_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, view: int
) -> None:
    program = _stub(tmp_path / "Git" / "bin" / "bash.exe")
    _nowhere(monkeypatch)
    key = r"SOFTWARE\anyshell's tests"
    monkeypatch.setattr(windows_shells, "KEY", key)
    with winreg.CreateKeyEx(winreg.HKEY_CURRENT_USER, key, access=winreg.KEY_WRITE | view) as made:
        winreg.SetValueEx(made, "InstallPath", 0, winreg.REG_SZ, str(tmp_path / "Git"))
    try:
        assert await find_shell("bash", _says_nothing) == (str(program),)
    finally:
        winreg.DeleteKeyEx(winreg.HKEY_CURRENT_USER, key, view)


async def test_in_a_shell_of_msys2_its_own_bash_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git, own = tmp_path / "git", tmp_path / "msys64"
    _stub(git / "cmd" / "git.exe")
    _stub(git / "bin" / "bash.exe")
    _stub(own / "usr" / "bin" / "bash.exe")
    _nowhere(monkeypatch, git / "cmd", own / "usr" / "bin")
    assert (await find_shell("bash", _says_nothing))[0] == str(git / "bin" / "bash.exe")
    monkeypatch.setenv("MSYSTEM", "UCRT64")
    assert (await find_shell("bash", _says_nothing))[0] == str(own / "usr" / "bin" / "bash.exe")


async def test_launchers_of_wsl_are_never_taken_for_bash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    windows, alias = tmp_path / "Windows", tmp_path / "Microsoft" / "WindowsApps"
    launchers = [_stub(windows / "System32" / "bash.exe"), _stub(alias / "bash.exe")]
    monkeypatch.setenv("SYSTEMROOT", str(windows))
    _nowhere(monkeypatch, windows / "System32", alias)
    assert await find_shell("bash", _says_nothing) == ()
    assert all(starts_wsl(str(each).upper()) for each in launchers)
    assert not starts_wsl(str(tmp_path / "Git" / "bin" / "bash.exe"))
    # A launcher is not taken either when it is named.
    with pytest.raises(ShellNotFound, match="it starts WSL, which has to be asked for: wsl"):
        await Environment.detect(shell=str(launchers[0]))


async def test_a_batch_file_is_no_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """cmd.exe would read the arguments of a batch file (CVE-2024-24576)."""
    for name in ("bash.cmd", "pwsh.bat", "bash.CMD"):
        (tmp_path / name).write_text("@echo anyshell 9.9\n")
    _nowhere(monkeypatch, tmp_path)
    assert await find_shell("bash", _says_nothing) == ()
    assert await find_shell("pwsh", _says_nothing) == ()
    for name in ("bash.cmd", "pwsh.bat"):
        with pytest.raises(InvalidCommand, match="not a shell that is known here"):
            await Environment.detect(shell=str(tmp_path / name))


async def test_a_place_may_name_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = _stub(tmp_path / "Git" / "bin" / "bash.exe")
    _nowhere(monkeypatch)
    monkeypatch.setenv("ProgramFiles", str(tmp_path))
    assert await find_shell(r"%ProgramFiles%\Git\bin\bash.exe", _says_nothing) == (str(program),)
    assert await find_shell(r"%NoSuchVariable%\Git\bin\bash.exe", _says_nothing) == ()


@pytest.mark.parametrize("value", ["bash", r"C:\no such directory\bash.exe", r".\bash.exe"])
async def test_malformed_path_of_bash_is_an_error(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ANYSHELL_BASH", value)
    with pytest.raises(InvalidCommand, match=r"ANYSHELL_BASH.*absolute path") as caught:
        await Environment.detect(shell="bash")
    assert repr(value) in str(caught.value)


async def test_request_for_a_program_other_than_bash_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANYSHELL_BASH", str(_stub(tmp_path / "bash.exe")))
    with pytest.raises(InvalidCommand, match=r"ANYSHELL_BASH: .*does not answer as bash does"):
        await Environment.detect(shell="bash")


# # --- texts for bash -------------------------------------------------------------------------------------------


async def test_bash_runs_commands_in_the_given_directory(bash: ShellInfo, tmp_path: Path) -> None:
    directory = tmp_path / "a b ü"
    directory.mkdir()
    env = await Environment.detect(shell=bash.path, cwd=tmp_path)
    try:
        drive, rest = os.path.splitdrive(directory)
        written = f"/{drive[0].lower()}{rest.replace(os.sep, '/')}"
        for cwd in (
            directory,
            directory.name,
            str(directory).replace("\\", "/"),
            written,
            f"\\\\?\\{directory}",
        ):
            done = await env.run('pwd -W; echo "$A|$SHELL" >&2; exit 3', cwd=cwd, env={"A": "é"})
            assert done.exit_code == 3
            where, rest = done.output.text.splitlines()[-2:]
            assert where.lower() == str(directory).replace("\\", "/").lower(), cwd
            assert rest in ("é|/bin/bash", "é|/usr/bin/bash")  # bash's own path, not the path of its start
    finally:
        await env.aclose()


TEXT = st.text(st.sampled_from("\\\"' \t\n$`*?[]{}~@%^!#;&|<>()-aé☃😀\x01"), max_size=30)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(["\\\\", "a\\"])
@example(["@file", "*"])
@example(["'\\\"", '"\\"'])
@given(st.lists(TEXT, min_size=5, max_size=8))
def test_bash_gets_its_text_unchanged(bash: ShellInfo, words: list[str]) -> None:
    """MSYS2 splits a command line by its own rules; tested with the real one."""
    text = SHELLS["bash"].join(["printf", "<%s>", *words]) + "; exit 7"
    done = run(bash, text)
    assert (done.returncode, done.stdout.decode()) == (7, "".join(f"<{word}>" for word in words))


@pytest.mark.parametrize("character", ["x", "é", "😀", "\\", '"', "\n"], ids=ascii)
@pytest.mark.parametrize("size", [1, 1_900, LONGEST_FOR_MSYS2, 9_000, 40_000])
def test_a_text_of_any_size_arrives_whole(bash: ShellInfo, tmp_path: Path, character: str, size: int) -> None:
    text = f": {SHELLS['bash'].quote(character * size)}; echo ${{#BASH_EXECUTION_STRING}} $0 $# end"
    info = ShellInfo("bash", bash.path)
    launch = SHELLS["bash"].launch(info, text)
    assert units(subprocess.list2cmdline(launch.argv)) <= LONGEST_COMMAND_LINE
    done = run(bash, text, tmp_path / "script")
    assert done.stdout.split()[-3:] == [b"bash", b"0", b"end"]
    if launch.script is None:
        assert int(done.stdout.split()[0]) == units(text) + 1  # in wide characters, with a blank before them


def test_a_long_text_keeps_its_line_numbers_and_its_ends(bash: ShellInfo, tmp_path: Path) -> None:
    text = "# é\n" * 5_000 + "echo $LINENO; cd /c; pwd\n\n(exit 5"
    done = run(bash, text.removesuffix("(exit 5") + "exit 5\n\n", tmp_path / "a script")
    assert (done.returncode, done.stdout.split()) == (5, [b"5001", b"/c"])


def test_missing_script_fails_with_an_error(bash: ShellInfo, tmp_path: Path) -> None:
    launch = SHELLS["bash"].launch(bash, "echo never" + "#" * 40_000)
    env = {**os.environ, "ANYSHELL_SCRIPT": str(tmp_path / "gone")}
    done = subprocess.run(
        launch.argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (126, b"")
    assert b"anyshell: the command could not be read from" in done.stderr


def test_shell_with_other_argument_rules_does_not_answer(bash: ShellInfo) -> None:
    """A sh without MSYS2's rules (busybox-w32, for example) would receive other texts."""
    (candidate,) = candidates(bash.path, os="windows")
    program = candidate.arguments[-1]
    assert _answer(bash, *candidate.arguments) == b"anyshell"
    assert _answer(bash, *candidate.arguments[:-1], program.replace("\\" * 4, "\\" * 8)) == b""


def _answer(bash: ShellInfo, *arguments: str) -> bytes:
    command = (bash.path, *arguments)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    return done.stdout.partition(b" ")[0]
