"""Peers: persistent shells of other libraries, measured beside anyshell's sessions if installed.

``pip install pexpect swe-rex`` installs the peers; nothing in the project needs a peer.
"""

from __future__ import annotations

import asyncio
import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    Run = Callable[[str], str]
    """Runs a command in the peer's shell and returns the output."""

_TIMEOUT = 30
"""Seconds for one command of a peer; without this limit, a peer that misses the end of a command would hang the run."""


@contextmanager
def _replwrap() -> Iterator[Run]:
    replwrap = importlib.import_module("pexpect.replwrap")
    shell = replwrap.bash()
    try:
        yield lambda command: str(shell.run_command(command, timeout=_TIMEOUT))
    finally:
        shell.child.close(force=True)


@contextmanager
def _swerex() -> Iterator[Run]:
    abstract = importlib.import_module("swerex.runtime.abstract")
    local = importlib.import_module("swerex.runtime.local")
    with asyncio.Runner() as runner:
        session = local.BashSession(abstract.CreateBashSessionRequest())
        runner.run(session.start())

        def take(command: str) -> str:
            action = abstract.BashAction(command=command, timeout=_TIMEOUT)
            return str(runner.run(session.run(action)).output)

        try:
            yield take
        finally:
            runner.run(session.close())


PEERS: Mapping[str, Callable[[], AbstractContextManager[Run]]] = {
    "pexpect's REPLWrapper": _replwrap,
    "swe-rex's BashSession": _swerex,
}
