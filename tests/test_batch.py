"""Batch files: arguments arrive unchanged or are refused, and no other program runs. Tested with the real cmd.exe, on Windows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from anyshell._exceptions import InvalidCommand
from anyshell._types import ShellInfo
from anyshell.shells.batch import LONGEST_LINE, NO_PERCENT, SWITCHES, for_cmd, is_batch_file, join_for_cmd
from anyshell.shells.powershell import PWSH, WINDOWS_POWERSHELL, PowerShell
from anyshell.shells.prefix import Prefix

from .conftest import missing
from .systems import SYSTEM

if TYPE_CHECKING:
    from pathlib import Path

on_windows = pytest.mark.skipif(sys.platform != "win32", reason="cmd.exe runs on Windows")

SHOW = "import sys; print(ascii(sys.argv[1:]))"

HARD = [
    '"&echo never&"',
    "&|<>()^!x!",
    'a"b c\\',
    "\\\\",
    '\\"',
    "a,b;c=d",
    "é☃😀",
    "'q'",
    "*",
    "",
    "\t",
    "\x1a",
    "a\\",
]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("a.cmd", True),
        (r"C:\x\A.BAT", True),
        ("a.bat. .", True),
        ("a.cmd ", True),
        ("a.exe", False),
        ("cmd", False),
        ("a.cmd.exe", False),
        ("", False),
    ],
)
def test_batch_file_is_recognized_by_its_name(name: str, is_one: bool) -> None:
    assert is_batch_file(name) == is_one


@pytest.mark.parametrize("argument", ["a\nb", "a\rb", "\r\n", "a\0"])
def test_line_ends_and_nul_in_arguments_are_refused(argument: str) -> None:
    for given_ in ([argument], ["a", argument]):
        with pytest.raises(InvalidCommand, match="line feed"):
            join_for_cmd(given_)
        with pytest.raises(InvalidCommand, match="line feed"):
            PWSH.join(["C:\\x\\a.cmd", *given_])
    # Whether the program is a batch file is known only at run time.
    assert "throw 'a batch file cannot" in PWSH.join(["npm", argument])


def test_line_over_the_limit_of_cmd_is_refused() -> None:
    assert join_for_cmd(["x" * (LONGEST_LINE - 2)])
    with pytest.raises(InvalidCommand, match="8,000"):
        join_for_cmd(["x" * (LONGEST_LINE - 1)])


@pytest.mark.parametrize("shell", [PWSH, WINDOWS_POWERSHELL], ids=lambda shell: shell.kind)
def test_cmd_exe_is_used_only_for_unsafe_arguments(shell: PowerShell) -> None:
    assert "cmd.exe" not in shell.join(["npm", "install", "--prefix=a".replace("=", "-"), "C:\\a b"])
    assert "cmd.exe" not in shell.join(["git.exe", "commit", "-m", 'a & "b"'])
    assert "cmd.exe" in shell.join(["git", "commit", "-m", 'a & "b"'])


@pytest.mark.parametrize("shell", [PWSH, WINDOWS_POWERSHELL], ids=lambda shell: shell.kind)
def test_percent_signs_in_a_batch_file_path_are_not_expanded(shell: PowerShell) -> None:
    for words in ([], ["plain"]):
        assert rf'"C:\x{NO_PERCENT}OS{NO_PERCENT}\a.cmd"' in shell.join([r"C:\x%OS%\a.cmd", *words])
        assert ".Replace('%'" in shell.join([r"C:\x%OS%\a", *words])
        assert "cmd.exe" not in shell.join([r"C:\x%OS%\a.exe", *words])


def test_a_prefix_on_windows_is_literal_words() -> None:
    assert Prefix(r'"C:\Program Files\x.exe" -n 10').words == (r"C:\Program Files\x.exe", "-n", "10")
    for text in ("a $HOME", "a 'b'", "a b\\ c'd'", '"$x" a'):
        with pytest.raises(InvalidCommand, match="on a Windows host"):
            _ = Prefix(text).words
    with pytest.raises(InvalidCommand, match="batch file"):
        Prefix("tool -a").check_words({"tool": r"C:\x\tool.CMD"})
    Prefix("tool -a").check_words({"tool": r"C:\x\tool.exe"})


WORDS = st.lists(
    st.text(st.sampled_from("\"\\ &|<>()^!,;=*?'~@#-/:ab1é☃😀\t" + "%" * (SYSTEM == "windows")), max_size=8),
    min_size=1,
    max_size=8,
)
# Wine's cmd.exe expands variables once more in the expanded arguments of a batch file; Windows' cmd.exe does not.

few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def batch_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A batch file that passes on its arguments, in a directory with special characters in its name."""
    directory = tmp_path_factory.mktemp("a b") / "c&d (100%) ^é"
    directory.mkdir()
    file = directory / "a tool.cmd"
    program = directory / "show.py"
    program.write_text(SHOW)
    shutil.copy(program, directory.parent / "show.py")
    file.write_text(f'@"{sys.executable}" "{directory.parent / "show.py"}" %*\n', encoding="utf-8")
    return file


@on_windows
def test_powershell_runs_the_named_batch_file(tmp_path: Path) -> None:
    """A decoy has the path that results from expanding variables in the path of the named file; the decoy must not run."""
    if sys.platform != "win32":
        return
    pwsh = shutil.which("pwsh.exe")
    if pwsh is None:
        missing("PowerShell", "winget install Microsoft.PowerShell")
    for name in ("x%OS%", f"x{os.environ['OS']}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.cmd").write_text(f"@echo {'right' if '%' in name else 'wrong'}\n")
    done = subprocess.run(
        PWSH.launch(ShellInfo("pwsh", pwsh), PWSH.join([str(tmp_path / "x%OS%" / "a.cmd"), "plain"])).argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
        creationflags=subprocess.CREATE_NO_WINDOW,
    )
    assert _shown(done) == "right"


def _shown(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


@on_windows
@few
@example(HARD)
@given(WORDS)
def test_batch_file_gets_literal_arguments(batch_file: Path, words: list[str]) -> None:
    line = f'cmd.exe {SWITCHES} ""{for_cmd(str(batch_file))}" {join_for_cmd(words)} "'
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert _shown(done) == ascii(words)


@on_windows
@few
@example(["%PATH%", "100%", "%", "%%", "%cd:~,%", "%CD:~0,1%", "%^PATH%", '"%PATH%"', "%1 %*"])
@given(st.lists(st.text(st.sampled_from('%PATHcd:~,0"^&!\\ 1*'), max_size=8), min_size=1, max_size=8))
def test_percent_signs_in_arguments_are_not_expanded(tmp_path: Path, words: list[str]) -> None:
    """cmd.exe parses this line like the line for a batch file."""
    (tmp_path / "show.py").write_text(SHOW)
    line = f'cmd.exe {SWITCHES} ""{sys.executable}" "{tmp_path / "show.py"}" {join_for_cmd(words)} "'
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert _shown(done) == ascii(words)


@on_windows
@pytest.mark.parametrize("shell", [PWSH, WINDOWS_POWERSHELL], ids=lambda shell: shell.kind)
@pytest.mark.parametrize("how", ["by its path", "by its name", "by its name without the end"])
def test_powershell_gives_a_batch_file_its_arguments(
    batch_file: Path, monkeypatch: pytest.MonkeyPatch, shell: PowerShell, how: str
) -> None:
    """PowerShell 7 runs in the mode that follows the rule of Windows PowerShell."""
    if sys.platform != "win32":
        return
    pwsh = shutil.which("pwsh.exe")
    if pwsh is None:
        missing("PowerShell", "winget install Microsoft.PowerShell")
    monkeypatch.setenv("PATH", f"{batch_file.parent};{os.environ['PATH']}")
    name = {"by its path": str(batch_file), "by its name": batch_file.name}.get(how, batch_file.stem)
    text = shell.join([name, *HARD])
    if shell is WINDOWS_POWERSHELL:
        text = "$PSNativeCommandArgumentPassing = 'Legacy'; " + text
    done = subprocess.run(
        PWSH.launch(ShellInfo("pwsh", pwsh), text).argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
        creationflags=subprocess.CREATE_NO_WINDOW,
    )
    assert _shown(done) == ascii(HARD)
