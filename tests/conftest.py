"""What every test may use."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from anyshell import Environment

from .ssh_server import SSHD, Server, account, embedded, is_root, openssh, own_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

for _name in ("SIGHUP", "SIGINT", "SIGQUIT"):
    # Whoever runs the tests below nohup, or in the background of a script, has them ignored, and so would all programs
    # that they start.
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)

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


SSH_HOSTS = ["openssh as root", "openssh as a user", "asyncssh"]
"""Servers that the contract is tested over; each is started when it is first needed."""


@pytest.fixture(scope="session")
def ssh_host() -> Iterator[Callable[[str], Server]]:
    """Gives a server by its name of `SSH_HOSTS`, which runs until all tests are over."""
    running: dict[str, Server] = {}
    with contextlib.ExitStack() as stack:

        def start(name: str) -> Server:
            if name not in running:
                running[name] = stack.enter_context(_ssh_server(name))
            return running[name]

        yield start


@contextlib.contextmanager
def _ssh_server(name: str) -> Iterator[Server]:
    if name == "asyncssh":
        with embedded() as server:
            yield server
        return
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    root = is_root()
    if name == "openssh as root":
        if not root:
            pytest.skip(
                "only root can log in as root here; whoever runs the tests is the user of the next one"
            )
        with openssh("root") as server:
            yield server
    elif root:
        with account("anyshell-user", "/bin/bash") as user, openssh(user) as server:
            yield server
    else:
        with openssh(own_name()) as server:
            yield server


@pytest.fixture(params=["local", *SSH_HOSTS])
async def env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    """An environment on every real backend, in a directory of its own. A new backend adds a parameter here."""
    host = "local" if request.param == "local" else ssh_host(request.param).options(max_connections=3)
    open_to_all(tmp_path)
    async with Environment.detect(host, cwd=tmp_path) as environment:
        yield environment


def python_for_all() -> str:
    """A Python that every user of the machine can run: the tests' own, or the system's."""
    path = Path(sys.executable)
    for each in (path, path.resolve()):
        if not all(parent.stat().st_mode & 0o001 for parent in each.parents):
            return shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or sys.executable
    return sys.executable


def open_to_all(path: Path) -> None:
    """Let every user of the machine work in a directory of pytest's, which are their owner's alone."""
    if not is_root():
        return  # there is nobody else then
    path.chmod(0o777)
    for parent in path.parents:
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o711)


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
