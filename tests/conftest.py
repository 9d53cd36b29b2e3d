"""What every test may use."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from anyshell import Environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

NOBODY = 65534
"""A user id that owns nothing."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every artifact of a test in a place of its own, and the shell the default one."""
    path = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(path))
    monkeypatch.delenv("ANYSHELL_SHELL", raising=False)
    return path


@pytest.fixture(params=["local"])
async def env(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    """An environment on every real backend. A new backend adds a parameter here."""
    async with Environment.detect(request.param, cwd=tmp_path) as environment:
        yield environment


@pytest.fixture
def ordinary_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory of an ordinary user's, who is who runs the test meanwhile: root may do everything."""
    if sys.platform == "win32" or os.geteuid() != 0:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory() as path:
        os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(path)
        finally:
            os.seteuid(0)


def missing(part: str, how: str) -> NoReturn:
    """Skip a test for want of a real part; fail it where every part is required."""
    message = f"{part} is not here: {how}"
    if os.environ.get("ANYSHELL_REQUIRE") == "all":
        pytest.fail(message)
    pytest.skip(message)
