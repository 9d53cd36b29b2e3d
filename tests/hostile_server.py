"""A server that lies: it answers the questions of a client like a host, with the answers that a test chooses."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncssh

from .ssh_server import HOST, Server, _keys, free_port, own_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path
    from typing import Any

FACTS = {
    "system": "Linux",
    "release": "6.1",
    "arch": "x86_64",
    "hostname": "liar",
    "user": "mallory",
    "home": "/",
    "login": "/bin/dash",
    "ticks": "100",
    "proc": "1",
    "directory": "/",
    "kind": "sh",
    "shell": "/bin/sh",
    "answer": "",
}


@dataclass
class Lies:
    """The answers of the server.

    Attributes:
        facts: Facts of the host, by their names.
        lines: Other lines among the facts.
        clock: The host's clock, at the end of each answer.
        answers: Lines that answer a question, by its verb.
        begun: The line of the login shell in place of ``started PID``, instead of starting a command.
        printed: The output of each command.
        endless: Output that each command then repeats until its channel is closed; the command does not exit.
        pause: Seconds between two repetitions.
        signal: The signal that ends each command; otherwise it exits with 0.
        refusal: The reason for refusing sessions beyond `sessions`.
        sessions: The number of sessions that are opened.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    clock: str = "1000.00"
    answers: Mapping[str, str] = field(default_factory=dict)
    begun: str = "started 4242"
    printed: str = ""
    endless: bytes = b""
    pause: float = 0.0
    signal: str = ""
    refusal: str = ""
    sessions: int = 1
    opened: int = 0


class _Connection(asyncssh.SSHServer):
    def __init__(self, lies: Lies) -> None:
        self._lies = lies

    def session_requested(self) -> Any:
        self._lies.opened += 1
        if self._lies.refusal and self._lies.opened > self._lies.sessions:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, self._lies.refusal)
        return asyncssh.SSHServerProcess(lambda process: _serve(process, self._lies), None, 3, False)


async def _serve(process: asyncssh.SSHServerProcess[bytes], lies: Lies) -> None:
    with contextlib.suppress(asyncssh.Error, OSError, EOFError):
        text = process.command or ""
        if (size := re.search(r"head -c (\d+)", text)) is not None:
            text = (await process.stdin.readexactly(int(size[1]))).decode()
        if (token := re.match(r"token=(\w+); token=\$\{token\}(\w+);", text)) is not None:
            await _watch(process, lies, token[1] + token[2], text)
            return
        said = re.search(r"'%s%s %s\\n' (\w+) (\w+) \"started", text)
        assert said is not None
        process.stdout.write(f"{said[1]}{said[2]} {lies.begun}\n{lies.printed}".encode())
        while lies.endless:
            process.stdout.write(lies.endless)
            await process.stdout.drain()
            await asyncio.sleep(lies.pause)
        if lies.signal:
            process.exit_with_signal(lies.signal)
        else:
            process.exit(0)


async def _watch(process: asyncssh.SSHServerProcess[bytes], lies: Lies, token: str, text: str) -> None:
    facts = [f"fact {name} {value}" for name, value in {**FACTS, **lies.facts}.items()]
    if "\nfacts " not in text:
        facts = []
    said = [f"{token} started 77", *facts, *lies.lines, f"{token} 0 {lies.clock}", ""]
    process.stdout.write("\n".join(said).encode("utf-8", "surrogateescape"))
    while line := await process.stdin.readline():
        number, verb, *_ = line.decode().split()
        if verb in ("hold", "load"):  # these have no answer
            while verb == "load" and line not in (b"", b".\n"):
                line = await process.stdin.readline()
            continue
        answer = lies.answers.get(verb, "none\n" if verb == "group" else "")
        process.stdout.write(
            f"{token} +\n{answer}{token} {number} {lies.clock}\n".encode("utf-8", "surrogateescape")
        )


@contextlib.asynccontextmanager
async def lying(place: Path, lies: Lies) -> AsyncIterator[Server]:
    """Serve these lies."""
    port = free_port()
    _keys(place, port)
    server = await asyncssh.listen(
        HOST,
        port,
        server_host_keys=[place / "host_key"],
        authorized_client_keys=str(place / "client_key.pub"),
        server_factory=lambda: _Connection(lies),
        encoding=None,
        line_editor=False,
    )
    try:
        yield Server(place, port, own_name())
    finally:
        server.close()
        await server.wait_closed()
