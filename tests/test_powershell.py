"""PowerShell's dialect, tested with the real PowerShell."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from anyshell import Environment
from anyshell._exceptions import InvalidCommand
from anyshell._types import ShellInfo
from anyshell.shells import candidates, not_found
from anyshell.shells.powershell import PWSH, WINDOWS_POWERSHELL, PowerShell
from anyshell.shells.windows import LONGEST_COMMAND_LINE

from .conftest import missing
from .processes import living, unique_seconds
from .wine import windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from .wine.windows import Windows

SECONDS = 50
"""The timeout of one start, which takes half a second on an idle machine."""


def _run(
    powershell: Windows, text: str, *, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Start the program that the dialect names, with the script in the place that the dialect names."""
    launch = PWSH.launch(ShellInfo("pwsh", str(powershell.pwsh), "7.6.2"), text)
    with tempfile.NamedTemporaryFile(prefix="a script ") as file:
        file.write((launch.script or "").encode())
        file.flush()
        where = {} if launch.script is None else {"ANYSHELL_SCRIPT": file.name}
        return subprocess.run(
            launch.argv,
            env={**os.environ, **where, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )


# # --- the end of a command -------------------------------------------------------------------------------------

CODES = {
    "nothing": ("", 0),
    "an exit": ("'a'; exit 3; 'b'", 3),
    "a program last": ("cmd /c exit 5 # and a comment", 5),
    "a program whose output is kept": ("$kept = cmd /c exit 6", 6),
    "a program, then what succeeds": ("cmd /c exit 5; 'b'", 0),
    "a cmdlet last": ("Get-Item missing", 1),
    "a program, then a cmdlet by another name": ("cmd /c exit 5; gi missing", 1),
    "a cmdlet, then a program": ("Get-Item missing; & 'cmd' /c exit 5", 5),
    "a cmdlet, then what succeeds": ("Get-Item missing; 'b'", 0),
    "a chain": ("cmd /c exit 5 && 'b'", 5),
    "an unknown name": ("no-such-command", 1),
    "a throw": ("throw 'a'; 'b'", 1),
    "an error that ends all": ("$ErrorActionPreference = 'Stop'; Get-Item missing; 'b'", 1),
    "an error of .NET's": ("'a'.NoSuchMethod()", 1),
    "strict mode": ("Set-StrictMode -Version Latest; Get-Item missing", 1),
    "a text that is not PowerShell": ("'never'\nif (", 1),
    "a text that needs nothing behind it": ("'a' `\n", 0),
    "a return": ("cmd /c exit 5; return", 0),
    "blocks": ("begin { 'a' } end { 'b' }", 0),
}


@pytest.fixture(scope="module")
def codes(powershell: Windows) -> dict[str, subprocess.CompletedProcess[bytes]]:
    """The result of each text, two running at a time."""
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda case: _run(powershell, case[0]), CODES.values())
        return dict(zip(CODES, done, strict=True))


@pytest.mark.parametrize("case", CODES)
def test_exit_code_reflects_the_last_statement(
    codes: dict[str, subprocess.CompletedProcess[bytes]], case: str
) -> None:
    assert codes[case].returncode == CODES[case][1]


# # --- input and output -----------------------------------------------------------------------------------------


def test_text_is_utf8_and_a_table_is_whole_before_a_failure(
    powershell: Windows,
) -> None:
    text = (
        '"é☃😀 `$x"; cmd /c echo é☃; $env:A_VARIABLE; [pscustomobject]@{name = "x"; size = 3}; cmd /c exit 4'
    )
    done = _run(powershell, text, env={"A_VARIABLE": "ü漢"})
    lines = [line for line in done.stdout.decode().splitlines() if line]
    assert lines[:3] == ["é☃😀 $x", "é☃", "ü漢"]
    assert [line.split() for line in lines[3:]] == [["name", "size"], ["----", "----"], ["x", "3"]]
    assert (done.returncode, done.stderr) == (4, b"")


def test_error_has_its_position_and_no_colour_or_xml(powershell: Windows) -> None:
    text = "Write-Progress -Activity busy -PercentComplete 30\nWrite-Warning careful\nGet-Item missing\nthrow 'all over'"
    done = _run(powershell, text)
    assert done.stdout == b"WARNING: careful\r\n"
    told = done.stderr.decode()
    assert re.search(r"Line \|\r\n +3 \|  Get-Item missing\r\n.*~~~~~\r\n.*Cannot find path", told)
    assert re.search(r" 4 \|  throw 'all over'", told)
    assert "\x1b" not in told
    assert "CLIXML" not in told


def test_syntax_error_is_reported_and_nothing_runs(
    codes: dict[str, subprocess.CompletedProcess[bytes]],
) -> None:
    done = codes["a text that is not PowerShell"]
    assert done.stdout == b""
    assert re.match(
        r"ParserError: \r\nLine \|\r\n   2 \|  if \(\r\n.*~\r\n.*Missing condition", done.stderr.decode()
    )


def test_profile_and_prompts_are_off_and_colour_is_on_request(
    powershell: Windows,
) -> None:
    done = _run(
        powershell,
        "[Environment]::GetCommandLineArgs() -contains '-NoProfile'; Read-Host 'a question'; 'b'; "
        "[Console]::Error.WriteLine('coloured'); $PSStyle.OutputRendering = 'Ansi'; Get-Item missing",
    )
    assert done.stdout.split() == [b"True", b"b"]
    plain, _, coloured = done.stderr.partition(b"coloured")
    assert b"NonInteractive" in plain
    assert b"\x1b[" not in plain
    assert b"\x1b[" in coloured


def test_text_runs_in_a_clean_global_scope(powershell: Windows) -> None:
    text = """
$x = 3; function f { "$script:x $global:x" }; f
"$($Error.Count) $ErrorActionPreference $PSNativeCommandUseErrorActionPreference [$env:ANYSHELL_SCRIPT]"
(Get-Variable).Name -match '^(text|tree|tokens|errors|last|names|reader|line|code|found)$'
"""
    for each in (text, text + "#" * LONGEST_COMMAND_LINE):
        done = _run(powershell, each)
        assert done.stdout.decode().splitlines() == ["3 3", "0 Continue False []"]
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_program_reads_stdin_and_prints_to_the_last_byte(powershell: Windows) -> None:
    python = windows.windows_path(windows.python_directory("3.11") / "python.exe")
    program = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.exit(7)"
    data = bytes(range(256)) * 1000
    done = _run(powershell, PWSH.join([python, "-c", program]), stdin=data)
    assert done.stdout == data
    assert done.returncode == 7


def test_the_lines_of_stdin_are_input(powershell: Windows) -> None:
    done = _run(powershell, '$input | ForEach-Object { "<$_>" }', stdin="a\n\né☃\r\nz".encode())
    assert done.stdout.decode().splitlines() == ["<a>", "<>", "<é☃>", "<z>"]


def test_a_long_text_runs_and_keeps_its_line_numbers(powershell: Windows) -> None:
    text = ("# " + "é" * 100 + "\n") * 2_500 + '"\u2018☃\u2019".Length\nGet-Item missing'
    done = _run(powershell, text)
    assert (done.returncode, done.stdout) == (1, b"3\r\n")
    assert b"2502 |  Get-Item missing" in done.stderr


def test_unreadable_script_fails_with_an_error(powershell: Windows) -> None:
    done = _run(powershell, "'never'#" + "x" * LONGEST_COMMAND_LINE, env={"ANYSHELL_SCRIPT": "/no/such/file"})
    assert (done.returncode, done.stdout) == (126, b"")
    assert done.stderr == b"anyshell: the command could not be read from /no/such/file\r\n"


@pytest.mark.parametrize("shell", [PWSH, WINDOWS_POWERSHELL], ids=lambda shell: shell.kind)
def test_no_command_line_is_longer_than_windows_takes(shell: PowerShell) -> None:
    info = ShellInfo(shell.kind, "C:\\" + "x" * 250 + "\\pwsh.exe", "7.6.2")
    scripts = set()
    for size in (0, 1_000, 8_000, 9_000, 10_000, 11_000, 100_000, 4_000_000):
        for character in "x'é😀":
            launch = shell.launch(info, character * size)
            assert len(subprocess.list2cmdline(launch.argv).encode("utf-16-le")) // 2 < 32_767
            assert launch.script in (None, character * size)
            scripts.add((size, launch.script is None))
    assert {(8_000, True), (11_000, False)} <= scripts


# --- quoting --------------------------------------------------------------------------------------------------

ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
QUOTES = "'\u2018\u2019\u201a\u201b"
HARD = st.text(QUOTES + '\\"\u201c \t\r\n\xa0\u3000$`a-@%&|<>*?[]{}(),;#~^!=é☃😀', max_size=12)
WORDS = st.lists(HARD | ANY, min_size=1, max_size=6)


@pytest.fixture(scope="module")
def ask(powershell: Windows) -> Iterator[Callable[[str], list[str]]]:
    """Run texts in one PowerShell, and give the lines that each text prints."""
    loop = """
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
while ($null -ne ($line = [Console]::In.ReadLine())) {
    & ([scriptblock]::Create([Text.Encoding]::UTF8.GetString([Convert]::FromBase64String($line))))
    [Console]::Out.WriteLine('end')
}
"""
    options = ("-NoProfile", "-NonInteractive", "-InputFormat", "None", "-Command", loop)
    with subprocess.Popen(
        (powershell.pwsh, *options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pipe, lines = process.stdin, process.stdout

        def answer(text: str) -> list[str]:
            pipe.write(base64.b64encode(text.encode()) + b"\n")
            told = []
            while (line := lines.readline().decode().strip()) != "end":
                assert line, "PowerShell has ended"
                told.append(line)
            return told

        yield answer
        pipe.close()


PRINT = "function print { foreach ($each in $args) { [Convert]::ToHexString([Text.Encoding]::UTF8.GetBytes($each)) + '.' } }; "


def _told(lines: Sequence[str]) -> list[str]:
    return [bytes.fromhex(line.removesuffix(".")).decode() for line in lines]


MORE_WORDS = st.lists(HARD | ANY, min_size=4, max_size=12)
"""More words for a program: to start a program takes longer than to look at its arguments."""

many = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@many
@example(["", "-a", "--%", "--", "-a:b", "@x", "1kb", "if", "True", "a.b", "..", "%", "?"])
@given(WORDS)
def test_a_quoted_word_is_taken_literally(ask: Callable[[str], list[str]], words: list[str]) -> None:
    assert _told(ask(PRINT + "print " + " ".join(map(PWSH.quote, words)))) == words


@settings(many, max_examples=26)
@example(["", "a b\\", "a\\\\", '\\"', '"', "-a.b:c", "--%", "*", "~", "$x", "%PATH%", "a\nb", "\xa0\\"])
@given(MORE_WORDS)
def test_program_gets_its_arguments_unchanged(
    ask: Callable[[str], list[str]], powershell: Windows, words: list[str]
) -> None:
    assert _told(ask(PWSH.join([powershell.arguments, *words]))) == words


@settings(many, max_examples=26)
@example(["", "a b\\", "a\\\\", '\\"', '"', "-a.b:c", "--%", "*", "~", "$x", "%PATH%", "a\nb", "\xa0\\"])
@given(MORE_WORDS)
def test_program_gets_its_arguments_unchanged_by_the_legacy_rule(
    ask: Callable[[str], list[str]], powershell: Windows, words: list[str]
) -> None:
    """PowerShell 7 can still pass arguments in nearly the way of Windows PowerShell."""
    text = "$PSNativeCommandArgumentPassing = 'Legacy'; "
    assert _told(ask(text + WINDOWS_POWERSHELL.join([powershell.arguments, *words]))) == words


def _passed_by_windows_powershell(argument: str) -> str:
    """An argument as Windows PowerShell passes it: in quotes when there is a blank outside of quotes, otherwise unchanged."""
    inside, blank = False, False
    for before, char in zip(" " + argument, argument, strict=False):
        if char == '"' and before != "\\":
            inside = not inside
        blank = blank or (char.isspace() and not inside)
    return f'"{argument}"' if blank else argument


def _cut_up(line: str) -> list[str]:
    """The words that the C library makes of a command line: Microsoft's rules, "Parsing C command-line arguments"."""
    words: list[str] = []
    word, inside, at = None, False, 0
    while at < len(line):
        slashes = len(line) - at - len(line[at:].lstrip("\\"))
        at += slashes
        quote = line[at : at + 1] == '"'
        if slashes:
            word = (word or "") + "\\" * (slashes // 2 if quote else slashes)
        if quote and slashes % 2:
            word, at = (word or "") + '"', at + 1
        elif quote:
            word, inside, at = word or "", not inside, at + 1
        elif at < len(line) and line[at] in " \t" and not inside:
            words += [] if word is None else [word]
            word, at = None, at + 1
        elif at < len(line):
            word, at = (word or "") + line[at], at + 1
    return words if word is None else [*words, word]


@settings(max_examples=500, deadline=None)
@example(["", "a b\\", "a\\\\", '\\"', '"', "a\nb", "\xa0\\", '\\" "\\', "--%"])
@given(WORDS)
def test_the_arguments_for_windows_powershell_survive_its_rule(words: list[str]) -> None:
    """The rule is applied as text, since Windows PowerShell itself runs on Windows alone."""
    line = WINDOWS_POWERSHELL.join(["program.exe", *words])
    literals = re.findall(rf"'((?:[^{QUOTES}]|([{QUOTES}])\2)*)'|(\S+)", line.removeprefix("& 'program.exe'"))
    told = [
        bare.replace("@('--%')", "--%") or re.sub(rf"([{QUOTES}])\1", r"\1", quoted)
        for quoted, _, bare in literals
    ]
    assert _cut_up(" ".join(map(_passed_by_windows_powershell, told))) == words


def test_a_long_argument_of_backslashes_takes_no_long_time() -> None:
    assert WINDOWS_POWERSHELL.join(["p.exe", "\\" * 1_000_000 + " "]).endswith("\\ \"'")


# # --- probes of shells -----------------------------------------------------------------------------------------


def _answer(command: Sequence[str | os.PathLike[str]], env: Mapping[str, str] | None = None) -> bytes:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=SECONDS, env=env
    ).stdout


def test_each_powershell_answers_its_own_probe_alone(powershell: Windows) -> None:
    (seven,), (five,) = candidates("/x/pwsh"), candidates("/x/powershell")
    assert _answer((powershell.pwsh, *seven.arguments)) == b"anyshell 7.6.2\r\n"
    assert _answer((powershell.pwsh, *five.arguments)) == b""


def test_silent_stub_does_not_answer_as_powershell(powershell: Windows) -> None:
    """Wine has such a stub in the place of Windows' PowerShell."""
    (five,) = candidates(r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe", os="windows")
    stub = powershell.command(five.path, *five.arguments)
    assert _answer(stub, powershell.environment()) == b""


@pytest.mark.parametrize("shell", [PWSH, WINDOWS_POWERSHELL], ids=lambda shell: shell.kind)
@pytest.mark.parametrize("stub", ["bash", "sh", "true", "echo", "cat"])
def test_other_programs_do_not_answer_as_powershell(shell: PowerShell, stub: str) -> None:
    path = shutil.which(stub)
    if path is None:
        missing(stub, f"install {stub}")
    (candidate,) = candidates(f"/x/{shell.kind}")
    for arguments in (candidate.arguments, candidate.arguments[-2:]):
        assert not re.search(rb"^anyshell", _answer((path, *arguments)), re.MULTILINE)


def test_missing_powershell_error_has_an_install_hint() -> None:
    assert "powershell" in str(not_found("pwsh", ["pwsh: not found"]))
    assert "'pwsh' was not found" in str(not_found("pwsh", []))
    assert r"C:\\ps7\\pwsh.exe" in str(not_found(r"C:\ps7\pwsh.exe", []))


# # --- PowerShell in an environment -----------------------------------------------------------------------------


@pytest.mark.anyio
async def test_environment_runs_and_stops_powershell_commands(powershell: Windows, tmp_path: Path) -> None:
    async with Environment.detect(shell=str(powershell.pwsh), cwd=tmp_path, snapshot=True) as env:
        assert (env.shell.kind, env.shell.version, env.shell.name) == ("pwsh", "7.6.2", "PowerShell 7.6.2")
        done = await env.run(
            "$PWD.Path; $env:A; $input; Write-Error bad; cmd /c exit 9", env={"A": "é"}, stdin="in\n"
        )
        assert done.exit_code == 9
        where = windows.windows_path(tmp_path)
        assert done.output.text.splitlines() == [where, "é", "in", "Write-Error: bad"]

        seconds = unique_seconds()
        stopped = await env.run(f"'begun'; Start-Sleep {seconds}", timeout=5, grace=0)
        assert stopped.status == "timed_out"
        assert not living(seconds)

        async with env.session() as session:
            with pytest.raises(InvalidCommand, match=r"sessions of PowerShell.* work only on this machine"):
                await session.run("'never'")
