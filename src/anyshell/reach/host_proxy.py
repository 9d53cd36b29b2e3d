"""The program that serves the networks of commands on a host, run by a Python there without anyshell.

The program gets the texts of `gate` and `proxy`. Its input is lines of JSON, each a request with a word and a number; the
program answers a request by ``done`` with the number, and ends at the end of its input. From a record, the program reports
only the changed rows.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from .._exceptions import SpawnError
from .._types.names import Names
from .gate import Gate
from .proxy import NetworkRecord, Proxy

if TYPE_CHECKING:
    import socket
    from typing import Any

    from .._types.network import Contact, Destination
    from .proxy import Tally


class _Told(NetworkRecord):
    """A record whose changes are reported, with a number as its identity."""

    def __init__(self, number: int, program: _Program, *, asks: bool) -> None:
        super().__init__(self._question if asks else None)
        self._number = number
        self._program = program
        self._rows: dict[tuple[str, int, str, str], Destination] = {}
        self._before = 0

    async def _question(self, name: str, port: int) -> str:
        return await self._program.question(self._number, name, port)

    def add(self, name: str, port: int, verdict: Contact, why: str = "") -> Tally:
        tally = super().add(name, port, verdict, why)
        self.tell()  # before the client gets its answer
        return tally

    def tell(self) -> None:
        """Report the changed rows of the record."""
        network = self.network()
        for each in network.destinations:
            key = (each.name, each.port, each.verdict, each.why)
            if self._rows.get(key) != each:
                self._rows[key] = each
                say("row", self._number, *key, each.connections, each.sent, each.received)
        if self._before != network.unlisted:
            self._before = network.unlisted
            say("unlisted", self._number, network.unlisted)


class _Proxy(Proxy):
    async def _served(self, sock: socket.socket, record: NetworkRecord) -> None:
        try:
            await super()._served(sock, record)
        finally:
            assert isinstance(record, _Told)
            record.tell()


class _Gate(Gate):
    seconds = None  # the command may wait for a session, and the end of the command also ends the wait

    def _serve(self, listener: socket.socket) -> Proxy:
        return _Proxy(listener, self._names, self._record)

    async def settle(self) -> None:
        assert isinstance(self._record, _Told)
        self._record.tell()


class _Program:
    """The program on the host."""

    def __init__(self) -> None:
        self._gates: dict[int, _Gate] = {}
        self._questions: dict[int, asyncio.Future[str]] = {}
        self._asked = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def question(self, record: int, name: str, port: int) -> str:
        """Ask anyshell whether a destination is allowed; return why it is refused, or an empty text."""
        self._asked += 1
        number = self._asked
        self._questions[number] = asyncio.get_running_loop().create_future()
        try:
            say("ask", record, number, name, port)
            return await self._questions[number]
        finally:
            del self._questions[number]

    def take(self, line: bytes) -> None:
        """Start the request in a line of the input."""
        task = asyncio.get_running_loop().create_task(self._do(*json.loads(line)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, word: str, number: int, *given: Any) -> None:
        if word == "answer":
            if number in self._questions and not self._questions[number].done():
                self._questions[number].set_result(given[0])
            return
        why = ""
        try:
            if word == "open":
                directory, token, names, asks = given
                gate = _Gate(Names(tuple(names)), directory, bytes.fromhex(token))
                gate.count(_Told(number, self, asks=asks))
                gate.listen()
                self._gates[number] = gate
            elif word == "belongs":
                gate, asks = self._gates[given[0]], given[1]
                await gate.settle()
                gate.count(_Told(number, self, asks=asks))
            elif word == "settle":
                await self._gates[given[0]].settle()
            elif word == "close" and (closed := self._gates.pop(given[0], None)) is not None:
                await closed.aclose()
                await closed.settle()
        except SpawnError as error:
            why = str(error)
        say("done", number, why)

    def end(self) -> None:
        """End the program at once, after removing the gates' directories."""
        for gate in tuple(self._gates.values()):
            gate._remove()
        os._exit(0)


def say(*words: object) -> None:
    """Write a line to stdout. A full pipe blocks this program, which bounds its memory."""
    data = json.dumps(words).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


async def _serve() -> None:
    loop, program = asyncio.get_running_loop(), _Program()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # asyncio's messages about failures would mix with the lines

    def read() -> None:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(program.take, line)
        program.end()  # even if the event loop blocks on a write that is never read

    for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGPIPE"):
        signal.signal(getattr(signal, name), lambda *_: program.end())
    threading.Thread(target=read, daemon=True).start()
    await asyncio.Event().wait()


def main() -> None:
    """Run the program."""
    asyncio.run(_serve())
