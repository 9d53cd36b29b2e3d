"""Output of Windows programs that is not UTF-8, and the settings that request UTF-8, tested with real programs."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING

import pytest

if sys.platform != "win32":
    pytest.skip(
        "Windows alone has code pages; the rule itself is tested in test_pages", allow_module_level=True
    )

import ctypes

from anyshell import Environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

PAGE = ctypes.WinDLL("kernel32").GetOEMCP()
"""The code page of this system."""

LETTER = b"\x82"
"""A letter in nearly every single-byte code page, and invalid UTF-8."""

PYTHON_VARIABLES = ("PYTHONUTF8", "PYTHONIOENCODING")


@pytest.fixture
async def env(anyio_backend: str, tmp_path: Path) -> AsyncIterator[Environment]:
    async with Environment.detect(cwd=tmp_path) as environment:
        yield environment


def python(program: str, shell: str) -> str:
    """A command that runs a program of Python."""
    text = base64.b64encode(program.encode()).decode()
    call = "& " if shell in ("pwsh", "powershell") else ""
    return f"{call}'{sys.executable}' -c \"import base64; exec(base64.b64decode('{text}'))\""


async def test_code_page_is_that_of_the_system(env: Environment) -> None:
    assert env.info.code_page == PAGE


@pytest.mark.skipif(
    PAGE in (932, 936, 949, 950, 65001), reason="the system's page has no letter of that byte"
)
async def test_non_utf8_output_is_decoded_by_the_system_code_page(env: Environment, tmp_path: Path) -> None:
    letter = LETTER.decode(f"cp{PAGE}")
    (tmp_path / "oem.txt").write_bytes(b"one " + LETTER + b"\r\n")
    (tmp_path / "utf8.txt").write_bytes("two é\r\n".encode())
    text = f"cmd /d /c 'type utf8.txt & chcp {PAGE} >nul & type oem.txt & echo three {letter}'"
    expected = f"two é\none {letter}\nthree {letter}\n"
    outcome = await env.run(text)
    assert outcome.output.text == expected
    assert outcome.output.total_lines == 3
    async with env.stream(text) as events:
        assert "".join([f"{event.text}\n" async for event in events]) == expected
    job = await env.start(text, ready=f"three {letter}")
    assert job.ready
    await job.wait()
    assert (await job.output()).text == expected


async def test_programs_have_a_utf8_console(env: Environment) -> None:
    look = "import ctypes; k = ctypes.windll.kernel32; print(k.GetConsoleOutputCP(), k.GetConsoleCP())"
    outcome = await env.run(python(look, env.shell.kind))
    assert outcome.output.text == "65001 65001\n"


async def test_python_uses_utf8_unless_the_host_configures_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    look = "import sys; print(sys.flags.utf8_mode, sys.stdout.encoding, sys.stdout.errors, end='')"
    for name in PYTHON_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    async with Environment.detect(cwd=tmp_path) as env:
        text = python(look, env.shell.kind)
        assert (await env.run(text)).output.text == "1 utf-8 surrogateescape"
        assert (await env.run(text, env={"PYTHONUTF8": "0"})).output.text == "0 utf-8 surrogateescape"
    monkeypatch.setenv("PYTHONUTF8", "0")
    async with Environment.detect(cwd=tmp_path) as env:
        utf8_mode, encoding, _ = (await env.run(text)).output.text.split()
        assert (utf8_mode, encoding.lower()) != ("1", "utf-8")
        assert not encoding.lower().startswith("utf")


async def test_counts_and_artifact_are_of_the_original_bytes(env: Environment) -> None:
    write = "import os; [os.write(1, (b'%05d ' % n + b'\\x82' * 60 + b'\\r\\n')) for n in range(3000)]"
    output = (await env.run(python(write, env.shell.kind))).output
    assert output.total_bytes == 3000 * 68
    assert output.total_lines == 3000
    assert output.truncated
    letters = LETTER.decode(f"cp{PAGE}", "replace") * 60
    assert output.text.startswith(f"00000 {letters}\n")
    assert output.text.endswith(f"02999 {letters}\n")
    assert output.artifact is not None
    assert output.artifact.path.read_bytes().startswith(b"00000 " + LETTER * 60 + b"\r\n")
