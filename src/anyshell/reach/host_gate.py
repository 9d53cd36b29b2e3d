"""The network of a command on another host: a program there runs the same proxy, and sends questions and records here.

So a connection goes from the host directly to its destination, by the host's resolver, and not through the SSH connection. The
program needs one session of the SSH connection and no forwarding. The program runs as long as it serves a command, and ends at
the end of its input.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import secrets
import zlib
from functools import cache
from typing import TYPE_CHECKING

import anyio

from .._exceptions import SpawnError
from .._types import Spawn, one_line
from .._types.names import host_of
from .._types.network import Destination, Network
from .._waits import note_failure, to_the_end
from .gate import ASKING, HANDOVER_SECONDS, Gate
from .host import text_of
from .proxy import MOST_DESTINATIONS, MOST_QUESTIONS, NetworkRecord
from .view import GATE

if TYPE_CHECKING:
    from typing import Any

    from .._types.names import Names
    from .._types.network import Contact
    from ..abc import Process, Spawner
    from .proxy import Ask

OLDEST_PYTHON = (3, 11)  # no bound
"""The oldest Python that can run the proxy."""

ANSWER_SECONDS = 5.0
"""Seconds for the program that serves networks on a host to do a request, and to end; then the wait is given up."""

_VERDICTS: dict[str, Contact] = {"allowed": "allowed", "refused": "refused", "failed": "failed"}

LINE_BYTES = 64 * 1024
"""Bytes of a line from the program that serves networks on a host; after a longer line the program is given up."""

_BOOT = """
import base64, json, sys, zlib
from importlib.machinery import ModuleSpec
texts = json.loads(zlib.decompress(base64.b64decode(sys.stdin.buffer.readline())))
class Texts:
    def find_spec(name, path=None, target=None):
        if name in texts:
            return ModuleSpec(name, Texts, is_package=any(each.startswith(name + ".") for each in texts))
    def create_module(spec):
        pass
    def exec_module(module):
        exec(compile(texts[module.__name__], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Texts)
from anyshell.reach.host_proxy import main
main()
"""

_WAITS = """
import asyncio
async def in_a_worker(call, *, abandon_on_cancel):
    return await asyncio.get_running_loop().run_in_executor(None, call)
async def shielded(work):
    return await asyncio.shield(work)
"""


@cache
def _texts() -> bytes:
    """Return the modules of the program, with stubs for modules of little use there: some 25 KB, for a slow connection."""
    texts = {"anyshell": "", "anyshell._types": "", "anyshell.reach": "", "anyshell._waits": _WAITS}
    texts["anyshell.reach.view"] = f"GATE = {GATE!r}"
    for name in ("_exceptions", "_types.checks", "_types.names", "_types.network"):
        texts[f"anyshell.{name}"] = text_of(name.replace(".", "/") + ".py", "anyshell")
    for name in ("gate", "host_proxy", "proxy", "requests"):
        texts[f"anyshell.reach.{name}"] = text_of(f"{name}.py")
    return base64.b64encode(zlib.compress(json.dumps(texts).encode()))


class _Heard(NetworkRecord):
    """A record that the program on the host reports."""

    def __init__(self, ask: Ask | None = None) -> None:
        super().__init__(ask)
        self._rows: dict[tuple[str, int, str, str], Destination] = {}

    def take(self, name: str, port: int, verdict: str, why: str, *counts: int) -> None:
        """Set a row of the record, which replaces the former row of the same destination."""
        connections, sent, received = map(int, counts)
        found = Destination(
            name=one_line(name),
            port=int(port),
            verdict=_VERDICTS[verdict],
            why=one_line(why),
            connections=connections,
            sent=sent,
            received=received,
        )
        key = (found.name, found.port, found.verdict, found.why)
        if key in self._rows or len(self._rows) < MOST_DESTINATIONS:
            self._rows[key] = found

    def network(self) -> Network:
        return Network(destinations=tuple(self._rows.values()), unlisted=self.unlisted)

    async def answered(self, name: str, port: int) -> str:
        """Ask why a destination is refused; empty if it is allowed. A host may lie, so its question is checked again here."""
        if self.ask is None or len(self.answers) >= MOST_QUESTIONS or (name, port) in self.answers:
            raise ValueError
        if str(host_of(name)) != name or not 0 < int(port) < 65536:
            raise ValueError
        answer = self.answers[name, port] = asyncio.ensure_future(self.ask(name, port))
        try:
            return await answer
        except Exception:  # noqa: BLE001 - whatever an approver raises is not a yes
            return "its approval could not be asked for"


class _Program:
    """The running program on the host."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        self.users = 0
        self.over = False
        self._process = process
        self._stdin = process.stdin
        self._sending = asyncio.Lock()
        self.numbers = itertools.count(1)
        self.records: dict[int, _Heard] = {}
        self._asked: dict[int, asyncio.Future[str]] = {}
        self._why = ""
        self._reading = asyncio.get_running_loop().create_task(self._read())
        self._tasks = {self._reading}

    async def request(self, word: str, number: int, *given: object, seconds: float) -> None:
        """Send a request to the program, and wait until it is done.

        Raises:
            SpawnError: The request was not done, with the reason.
        """
        done = self._asked[number] = asyncio.get_running_loop().create_future()
        why = "it does not answer"
        try:
            async with asyncio.timeout(seconds):
                await self.send(json.dumps((word, number, *given)).encode())
                why = self._why if self.over else await done
        except TimeoutError:
            pass
        except anyio.BrokenResourceError:
            await asyncio.wait([self._reading], timeout=ANSWER_SECONDS)
            why = self._why or why
        finally:
            del self._asked[number]
        if why:
            raise SpawnError(f"the program that serves a network on the host: {why}")

    async def send(self, line: bytes) -> None:
        """Write a line to the program's stdin."""
        async with self._sending:
            await self._stdin.send(line + b"\n")

    async def aclose(self) -> None:
        """End the program: close its stdin, wait for its end within a bound, and close the process."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._stdin.aclose()
                await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._process.aclose()

    async def _read(self) -> None:
        held = b""
        try:
            while len(held) <= LINE_BYTES:
                *lines, held = (held + await self._process.stdout.receive()).split(b"\n")
                for line in lines:
                    self._why = one_line(line[:200].decode("utf-8", "replace"))
                    self._take(*json.loads(line))
            self._why = "a line is too long"
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._why = "it has ended"
        except Exception:  # noqa: BLE001 - a line that is not the program's own, such as what Python says; or a lie
            self._why = self._why or "it says nothing"
        finally:
            self.over = True
            for done in self._asked.values():
                if not done.done():
                    done.set_result(self._why)

    def _take(self, word: str, number: int, *given: Any) -> None:
        if word == "done":
            if number in self._asked and not self._asked[number].done():
                self._asked[number].set_result(one_line(given[0]))
        elif (record := self.records.get(number)) is None:
            pass  # a late message about a command that has ended
        elif word == "row":
            record.take(*given)
        elif word == "unlisted":
            record.unlisted = int(given[0])
        elif word == "ask":
            task = asyncio.get_running_loop().create_task(self._answer(record, *given))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(note_failure)

    async def _answer(self, record: _Heard, number: int, name: str, port: int) -> None:
        why = await record.answered(name, port)
        await self.send(json.dumps(("answer", number, why)).encode())


class HostProxies:
    """The program that serves the networks of commands on one host: one program for all commands that run at a time.

    Args:
        python: The path of the host's Python, which runs the program.
    """

    def __init__(self, python: str) -> None:
        self._python = python
        self._program: _Program | None = None
        self._starting = asyncio.Lock()

    async def join(self, spawner: Spawner) -> _Program:
        """Return the program, and start it if none runs; use it until `leave`.

        Raises:
            SpawnError, ConnectionFailed: The program cannot be started.
        """
        async with self._starting:
            if self._program is None or self._program.over:
                argv = (self._python, "-I", "-S", "-c", _BOOT)
                process = await spawner.spawn(Spawn(argv=argv, cwd="/", stdin=True))
                self._program = _Program(process)
                self._program.users += 1
                try:
                    with contextlib.suppress(anyio.BrokenResourceError):  # the first request says why
                        await self._program.send(_texts())
                except BaseException:
                    await to_the_end(self.leave(self._program), stop=lambda: None)
                    raise
            else:
                self._program.users += 1
            return self._program

    def gate(self, names: Names) -> Gate:
        """Return the gate of one program's network, for connections to these names."""
        return _HostGate(names, self)

    async def leave(self, program: _Program) -> None:
        """Give up the use of a program; the last user's call ends the program."""
        program.users -= 1
        if program.users == 0:
            if self._program is program:
                self._program = None
            await program.aclose()


class _HostGate(Gate):
    """The server of one program's network on another host, from before the program's start to its end.

    Args:
        names: The names that the program may connect to.
        proxies: The server of networks on that host.
    """

    def __init__(self, names: Names, proxies: HostProxies) -> None:
        super().__init__(names, f"/tmp{GATE}{secrets.token_hex(8)}")  # noqa: S108 - a directory of its own
        self._proxies = proxies
        self._program: _Program | None = None
        self._number = 0

    async def open(self, spawner: Spawner) -> None:
        self._program = program = await self._proxies.join(spawner)
        self._number = self._counted = next(program.numbers)
        record = self._counts(program)
        given = (self._directory, self._token.hex(), self._names.given, record.ask is not None)
        await program.request("open", self._number, *given, seconds=HANDOVER_SECONDS)

    async def belongs(self) -> NetworkRecord:
        program = self._program
        assert program is not None
        program.records.pop(self._counted, None)
        self._counted = next(program.numbers)
        record = self._counts(program)
        await self._tell("belongs", self._counted, self._number, record.ask is not None)
        return record

    async def settle(self) -> None:
        await self._tell("settle", 0, self._number)

    async def aclose(self) -> None:
        self._record.forget()
        if (program := self._program) is not None:
            await self._tell("close", 0, self._number)
            self._program = None
            program.records.pop(self._counted, None)
            await self._proxies.leave(program)
        await asyncio.gather(*self._record.answers.values(), return_exceptions=True)

    def _counts(self, program: _Program) -> _Heard:
        record = program.records[self._counted] = _Heard(ASKING.get())
        self.count(record)
        return record

    async def _tell(self, word: str, number: int, *given: object) -> None:
        if self._program is not None:
            with contextlib.suppress(SpawnError):  # the serving program is gone, and with it the network
                number = number or next(self._program.numbers)
                await self._program.request(word, number, *given, seconds=ANSWER_SECONDS)
