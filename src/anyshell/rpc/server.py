"""The server of the protocol: each line is a request or an answer, and each request runs in a task of its own."""

from __future__ import annotations

import asyncio
import errno
import json
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from .._engine import Control
from .._exceptions import AnyshellError
from ..cli.printing import to_json
from ..cli.process.descriptors import lines
from ..tool.params import InvalidParams, alike, validated
from .methods import ALSO_CALLED, METHODS, VERSION, Methods

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable

    from pydantic import BaseModel

    from .._environment import Environment
    from .._types import Channel

LONGEST_LINE = 32 * 1024 * 1024
"""Bytes of a request; a longer one is skipped and answered by an error."""

LONGEST_ID = 200
"""Characters of the id of a request; a longer id is answered by an error."""

MOST_REQUESTS = 256
"""Requests that are under way at once; one more is answered by an error."""

MOST_HELD = 256 * 1024 * 1024
"""Bytes of all requests that are under way at once; a request beyond is answered by an error."""

MOST_READS = 4
"""Parts of files that are read, or wait to be written to the client, at once; one more waits for its turn."""

MOST_NAMES = 10_000
"""Names in one object of a request; a request with more is answered by an error."""

STOP_SECONDS = 10.0
"""Seconds to stop the requests under way, once the client is gone; then the environment ends the remaining ones."""

UNREAD_SECONDS = 60.0
"""Seconds for a client to read one of `MOST_REQUESTS` unread answers; then the client counts as gone."""

_HELLO = json.dumps({"id": 1, "method": "hello", "params": {"version": VERSION}})


class _Fault(Exception):  # noqa: N818 - becomes an answer
    def __init__(self, code: str, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.told = {"code": code, "message": message, "type": kind}


class Server:
    """The server of one client.

    Args:
        env: The environment of the work; entered.
        write: Writes a line for the client, and returns when the line is written. A client that reads slowly therefore
            slows down the commands whose output it streams.
    """

    def __init__(self, env: Environment, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._env = env
        self._write = write
        self._writing = asyncio.Lock()
        self._reads = asyncio.Semaphore(MOST_READS)
        self._methods = Methods(env)
        self._under_way: dict[str | int, tuple[asyncio.Task[None], Control | None, int]] = {}
        self._saying: set[asyncio.Task[None]] = set()
        self._greeted = False

    async def serve(self, pieces: AsyncIterable[bytes]) -> None:
        """Answer requests until the end of the input; then stop the requests under way."""
        try:
            async for line in lines(pieces, LONGEST_LINE):
                self._take(line)
                if not await self._are_read():
                    return
        finally:
            commands = [task for task, *_ in self._under_way.values()]
            for task in commands:
                task.cancel()
            for left in (commands, self._saying):  # the end of a command makes an answer
                if left:
                    await asyncio.wait(left, timeout=STOP_SECONDS)

    async def _are_read(self) -> bool:
        """Wait while too many answers are unread, and return whether the client still reads."""
        if len(self._saying) < MOST_REQUESTS:
            return True
        done, _ = await asyncio.wait(
            self._saying, timeout=UNREAD_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        return bool(done)

    def _take(self, line: bytes) -> None:
        """Begin with a request, or answer with an error."""
        request_id = None
        try:
            told = _parsed(line)
            request_id = _id(told)
            result = self._begin(told, request_id, len(line))
            if result is not None:
                self._say_later({"id": request_id, "result": result})
        except _Fault as fault:
            self._say_later({"id": request_id, "error": fault.told})

    def _say_later(self, told: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._say(told))
        self._saying.add(task)
        task.add_done_callback(self._saying.discard)

    def _begin(self, told: dict[str, Any], request_id: str | int, size: int) -> dict[str, Any] | None:
        """Start the task of a request, or return the result of a request that needs no task."""
        given = told.get("method")
        method = ALSO_CALLED.get(given, given) if isinstance(given, str) else ""
        if method not in METHODS:
            names = (*METHODS, *ALSO_CALLED)
            hint = alike(given, names) if isinstance(given, str) else ""
            raise _Fault("no_method", f"there is no such method{hint}: the methods are {', '.join(names)}")
        if not self._greeted and method != "hello":
            raise _Fault("no_hello", f"the first request must be hello: {_HELLO}")
        if request_id in self._under_way:
            raise _Fault("bad_message", "a request of that id is under way: give each an id of its own")
        keys = list(METHODS[method].model_fields)
        given = told.get("params")
        try:
            params = validated(
                {} if given is None else given, METHODS[method], keys, partial(alike, keys=keys)
            )
        except InvalidParams as error:
            raise _Fault("bad_params", str(error)) from None
        if method == "hello":
            return self._greet(params)
        if method == "abort":
            return self._abort(params)
        held = sum(held for *_, held in self._under_way.values()) + size
        if len(self._under_way) >= MOST_REQUESTS or held > MOST_HELD:
            message = f"{MOST_REQUESTS:,} requests, or {MOST_HELD:,} bytes of them, are under way: "
            raise _Fault("busy", f"{message}wait for one of them, or abort it")
        control = Control() if method in ("run", "stream") else None
        work = self._carry_out(request_id, method, dict(params), control)
        task = asyncio.ensure_future(work)
        self._under_way[request_id] = (task, control, size)
        task.add_done_callback(partial(self._is_over, request_id))
        return None

    def _is_over(self, request_id: str | int, task: asyncio.Task[None]) -> None:
        """Answer a cancelled request whose task has sent no answer; the task may not even have begun."""
        self._saying.discard(task)
        if request_id in self._under_way and self._under_way[request_id][0] is task:
            del self._under_way[request_id]
            self._say_later({"id": request_id, "error": _Fault("aborted", "the request was aborted").told})

    def _greet(self, params: BaseModel) -> dict[str, Any]:
        from .. import __version__

        if dict(params)["version"] != VERSION:
            raise _Fault("no_version", f"the only supported version of the protocol is {VERSION}")
        self._greeted = True
        env = self._env
        facts = {"host": env.host, "os": env.os, "shell": env.shell.kind, "directory": env.directory}
        return {"version": VERSION, "anyshell": __version__, **facts, "methods": list(METHODS)}

    def _abort(self, params: BaseModel) -> dict[str, Any]:
        """Stop commands, which still answer with an outcome, and cancel other requests."""
        wanted = dict(params)["id"]
        chosen = [each for each in self._under_way if wanted in (None, each)]
        for each in chosen:
            task, control, _ = self._under_way[each]
            (task if control is None else control).cancel()
        return {"aborted": chosen}

    async def _carry_out(
        self, request_id: str | int, method: str, params: dict[str, Any], control: Control | None
    ) -> None:
        async def tell(channel: Channel, data: str) -> None:
            await self._say({"id": request_id, "event": "output", "channel": channel, "data": data})

        async with self._reads if method == "files.read" else nullcontext():
            answer: dict[str, Any] = {"id": request_id}
            try:
                if control is not None:
                    result: Any = await self._methods.run(control, tell, **params)
                else:
                    result = await self._methods.carry_out(method, params)
                answer["result"] = {} if result is None else result
            except Exception as error:  # noqa: BLE001 - what goes wrong ends the request, and not the server
                answer["error"] = _fault_of(error).told
            params.clear()  # free the memory: while waiting for the client, only the answer is held
            task, *_ = self._under_way.pop(request_id)  # the id is free before the client can read the answer
            self._saying.add(task)
            await self._say(answer)

    async def _say(self, told: dict[str, Any]) -> None:
        async with self._writing:
            await self._write(to_json(told, one_line=True))


def _fault_of(error: Exception) -> _Fault:
    if isinstance(error, AnyshellError):
        return _Fault("failed", str(error), type(error).__name__)
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        return _Fault("file", f"{error.strerror or error}{where}", name)
    return _Fault("failed", f"a fault of anyshell's own: {error}", type(error).__name__)


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the request of a line."""
    if len(line) > LONGEST_LINE:
        message = f"the line has more than {LONGEST_LINE:,} bytes: write a file in parts, by append"
        raise _Fault("bad_message", message)
    try:
        told = json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise _Fault("bad_message", f"each line must be one JSON object, such as {_HELLO}")
    return told


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (
        len(pairs) > MOST_NAMES
    ):  # describing the faults of a million names takes 10 s, in which the server does nothing else
        raise _Fault("bad_message", f"an object has more than {MOST_NAMES:,} names: give fewer")
    return dict(pairs)


def _id(told: dict[str, Any]) -> str | int:
    request_id = told.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        raise _Fault("bad_message", f"the id must be a string or a whole number: {_HELLO}")
    if isinstance(request_id, str) and len(request_id) > LONGEST_ID:
        raise _Fault("bad_message", f"the id has more than {LONGEST_ID} characters: give a shorter one")
    if set(told) - {"id", "method", "params"}:
        raise _Fault("bad_message", f"a request has id, method and params alone: {_HELLO}")
    return request_id
