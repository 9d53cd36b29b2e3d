"""Shells of a Windows host: names, paths and launches as texts, tested on every system."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from anyshell._exceptions import InvalidCommand
from anyshell._types import HostInfo, ShellInfo
from anyshell.shells import SHELLS, candidates, kinds, not_found, query

if TYPE_CHECKING:
    from anyshell._types import ShellKind


def test_missing_shell_error_on_windows_has_an_install_hint() -> None:
    for request, how in {
        None: "winget install Microsoft.PowerShell",
        "pwsh": "winget install Microsoft.PowerShell",
        "BASH.EXE": "winget install Git.Git",
        "wsl": "wsl --install",
    }.items():
        assert how in str(not_found(request, [], os="windows"))
        assert "apt-get" not in str(not_found(request, [], os="windows"))
    assert "brew install bash" in str(not_found("bash", [], os="macos"))
    assert "apt-get" not in str(not_found("bash", [], os="macos"))
    # The name that only the other system knows.
    with pytest.raises(InvalidCommand, match=r"wish: 'BASH\.EXE'"):
        not_found("BASH.EXE", [], source="wish")


def test_default_shell_on_windows_is_powershell_and_then_bash() -> None:
    kinds_ = list(dict.fromkeys(candidate.kind for candidate in candidates(os="windows")))
    assert kinds_ == ["pwsh", "powershell", "bash"]
    assert list(kinds("windows")) == ["pwsh", "powershell", "bash", "zsh", "sh", "wsl"]
    assert [kind for kind, expected in kinds("linux").items() if expected] == ["bash", "zsh", "sh"]


@pytest.mark.parametrize(
    ("request_", "kind", "path"),
    [
        ("bash", "bash", "bash"),
        ("Bash.EXE", "bash", "bash"),
        ("PWSH", "pwsh", "pwsh"),
        ("powershell.exe", "powershell", r"%SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe"),
        ("wsl", "wsl", r"%SystemRoot%\Sysnative\wsl.exe"),
        ("c:/program files/git/bin/BASH", "bash", "c:/program files/git/bin/BASH"),
        (r"\\server\share\pwsh.exe", "pwsh", r"\\server\share\pwsh.exe"),
        (r"\\?\C:\ps7\pwsh.exe", "pwsh", r"\\?\C:\ps7\pwsh.exe"),
        ("/usr/bin/bash", "bash", "/usr/bin/bash"),
    ],
)
def test_shell_on_windows_may_be_named_in_many_ways(request_: str, kind: str, path: str) -> None:
    first = candidates(request_, os="windows")[0]
    assert (first.kind, first.path) == (kind, path)


@pytest.mark.parametrize(
    "request_", ["bash.cmd", r"C:\x\pwsh.bat", "cmd.exe", "C:bash.exe", r".\bash.exe", "", "C:\\"]
)
def test_unknown_shells_are_refused_on_windows(request_: str) -> None:
    with pytest.raises(InvalidCommand):
        candidates(request_, os="windows")


def test_query_has_candidates_for_each_system() -> None:
    both = query(("git",), "bash")
    assert both.programs == ("git",)
    assert both.shells_on("linux") == both.shells_on("macos") == candidates("bash")
    assert both.shells_on("windows") == candidates("bash", os="windows")
    assert query((), "PWSH.EXE").shells == ()
    with pytest.raises(InvalidCommand, match="fish"):
        query((), "fish")


def test_wsl_launch_passes_text_script_and_variables() -> None:
    wsl, info = SHELLS["wsl"], ShellInfo("wsl", r"C:\Windows\System32\wsl.exe")
    assert wsl.launch(info, r"echo 'a\\b'").argv[1:] == (
        *("--exec", "/bin/bash", "--norc", "--noprofile", "-c", "--", r"echo 'a\\b'", "wsl"),
    )
    assert wsl.launch(info, "x" * 40_000).script == "x" * 40_000 + "."
    assert wsl.lets_through(["A", "CI"]) == {"WSLENV": "A/u:CI/u:ANYSHELL_SCRIPT/up"}
    assert SHELLS["bash"].lets_through(["A"]) == SHELLS["pwsh"].lets_through(["A"]) == {}
    assert info.name == "bash in WSL"


@pytest.mark.parametrize("kind", ["bash", "pwsh"])
def test_text_too_long_with_its_prefix_becomes_a_script(kind: ShellKind) -> None:
    shell, info = SHELLS[kind], ShellInfo(kind, rf"C:\x\{kind}.exe")
    text = "x" * (3_000 if kind == "bash" else 9_000)
    assert shell.launch(info, text).script is None
    assert shell.launch(info, text, before=["y" * 30_000]).script is not None
    assert shell.launch(info, "😀" * 2_001 if kind == "bash" else text * 2).script is not None


WINDOWS = HostInfo(
    os="windows", arch="", name="", version="", hostname="", user="", home=r"C:\Users\me", directory=r"D:\src"
)


@pytest.mark.parametrize(
    ("kind", "path", "place"),
    [
        ("bash", "/c/Users", "C:\\Users"),
        ("bash", "/d", "D:\\"),
        ("bash", "/cygdrive/e/x y", "E:\\x y"),
        ("bash", "C:/a/b", "C:\\a\\b"),
        ("bash", "/cc/x", "D:\\cc\\x"),
        ("bash", "a", "D:\\src\\a"),
        ("bash", "~/a", "C:\\Users\\me\\a"),
        ("pwsh", "/c/Users", "D:\\c\\Users"),
        ("pwsh", "\\x", "D:\\x"),
        ("pwsh", r"\\server\share\x", r"\\server\share\x"),
        ("pwsh", r"\\?\C:\x", r"C:\x"),
        ("pwsh", r"\\?\UNC\server\share\x", r"\\server\share\x"),
        ("pwsh", "\\\\?\\C:\\" + "x" * 300, "\\\\?\\C:\\" + "x" * 300),
        ("wsl", "/mnt/c/x", "C:\\x"),
        ("wsl", "/c/x", "D:\\c\\x"),
    ],
)
def test_path_in_the_style_of_a_shell_is_resolved_on_windows(kind: ShellKind, path: str, place: str) -> None:
    info = replace(WINDOWS, shell=ShellInfo(kind, rf"C:\x\{kind}.exe"))
    assert info.resolve(path) == place


def test_path_relative_to_another_drive_is_refused() -> None:
    with pytest.raises(InvalidCommand, match="'D:src' is relative"):
        WINDOWS.resolve("D:src")
