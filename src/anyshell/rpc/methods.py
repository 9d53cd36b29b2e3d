"""The methods of the protocol, with the parameters of each method and the JSON schema of a line."""

from __future__ import annotations

import base64
import binascii
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from .._exceptions import InvalidCommand
from .._types import Outcome
from ..output import Page, TextDecoder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .._engine import Control
    from .._environment import Environment
    from .._types import Channel, FileStat
    from ..jobs import Job
    from ..reach import Reach

    Tell = Callable[[Channel, str], Awaitable[None]]

VERSION = 1  # no bound: the version of the protocol
"""The version of the protocol; only a change that breaks clients makes a new version."""

MOST_READ = 16 * 1024 * 1024
"""Bytes of a file, or of a job's output, that one request reads, at most and by default; asking for more is an error."""

ALSO_CALLED = {"bash": "run", "abort_bash": "abort"}
"""Names of the same methods in oh-my-pi's protocol."""

ERRORS = (
    *("bad_message", "no_hello", "no_version", "no_method", "bad_params"),
    *("busy", "aborted", "file", "failed"),
)
"""The codes of errors."""


def _about(kind: Any, said: str, **bounds: Any) -> Any:
    return Annotated[kind, Field(description=said, **bounds)]


def _parameters(**named: Any) -> type[BaseModel]:
    """Return the pydantic model of a method's parameters; each is a type, or a tuple of a type and a default."""
    known: dict[str, Any] = {
        name: given if isinstance(given, tuple) else (given, ...) for name, given in named.items()
    }
    return create_model("params", __config__=ConfigDict(extra="forbid", strict=True), **known)


_JOB = _about(str, "The id of a job.")
_SKIP = (_about(int, "Bytes to skip.", le=2**63 - 1), 0)
_MOST = (_about(int, "Bytes at most.", le=MOST_READ), MOST_READ)
_ENCODING = (_about(Literal["utf-8", "base64"], "Of the data."), "utf-8")
_PATH = _about(str, "Absolute, relative to the environment's directory, or below ~.")
_COMMAND = {
    "command": _about(str, "Text in the shell's own language."),
    "cwd": (_about(str | None, "The command's directory, relative to that of the environment."), None),
    "env": (_about(dict[str, str], "Variables set over everything else."), {}),
    "timeout": (
        _about(float | None, "Seconds until the command and its processes are stopped; null is never."),
        None,
    ),
    "silence": (
        _about(float | None, "Seconds without output until the command is stopped; null is never."),
        None,
    ),
    "reach": (
        _about(
            str | dict[str, Any] | None,
            "What the command may see, write and reach; at most the environment's reach.",
        ),
        None,
    ),
}
_RUN = {
    **_COMMAND,
    "stdin": (_about(str | None, "The command's input; null is end-of-file at once."), None),
    "split_stderr": (
        _about(bool, "Keep stderr apart from stdout; the order between the two is lost."),
        False,
    ),
    "session": (_about(str | None, "The name of a session, which is opened at its first use."), None),
    "effects": (
        _about(
            bool | list[str], "Compare the files of the directory, or of these, before and after the command."
        ),
        False,
    ),
}
METHODS: dict[str, type[BaseModel]] = {
    "hello": _parameters(version=int, client=(str, "")),
    "run": _parameters(**_RUN),
    "stream": _parameters(**_RUN, encoding=_ENCODING),
    "abort": _parameters(id=(_about(str | int | None, "A request; null is every one."), None)),
    "session.restart": _parameters(name=str),
    "session.close": _parameters(name=str),
    "jobs.start": _parameters(**_COMMAND),
    "jobs.list": _parameters(),
    "jobs.output": _parameters(
        job=_JOB, since=_SKIP, limit=_MOST, wait=(_about(float, "Seconds for news."), 0)
    ),
    "jobs.send": _parameters(job=_JOB, data=str, close=(bool, False)),
    "jobs.wait": _parameters(
        job=_JOB, timeout=(_about(float | None, "Seconds; null waits until the job ends."), None)
    ),
    "jobs.stop": _parameters(job=_JOB),
    "files.read": _parameters(path=_PATH, offset=_SKIP, length=_MOST, encoding=_ENCODING),
    "files.write": _parameters(path=_PATH, data=str, encoding=_ENCODING, append=(bool, False)),
    "files.list": _parameters(path=_PATH),
    "files.stat": _parameters(path=_PATH),
    "files.mkdir": _parameters(
        path=_PATH, parents=(_about(bool, "Make missing parents; an existing directory is no error."), False)
    ),
    "files.remove": _parameters(path=_PATH, recursive=(bool, False)),
}
"""The methods, each with the model of its parameters."""


class Methods:
    """The methods of one environment. Results such as an `Outcome` have the form of ``run --json``.

    Args:
        env: The environment of the work; entered.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env

    async def run(
        self,
        control: Control,
        tell: Tell,
        *,
        session: str | None,
        reach: str | dict[str, Any] | None,
        encoding: str | None = None,
        **options: Any,
    ) -> Outcome:
        """Run a command to its end; with `encoding`, pass each piece of output to `tell` at once."""
        if reach is not None:
            if session is not None:
                raise InvalidCommand("reach: a session has that of the environment: leave out one of them")
            options["reach"] = _reach(reach)
        decoders: dict[Channel, TextDecoder] = {}

        async def hear(channel: Channel, data: bytes) -> None:
            if encoding == "base64":
                await tell(channel, base64.b64encode(data).decode())
                return
            page = Page.of(self._env.info.code_page)
            if text := decoders.setdefault(channel, TextDecoder(page)).decode(data):
                await tell(channel, text)

        where = self._env if session is None else self._env.session(session)
        outcome = await where.run(**options, listener=hear if encoding else None, control=control)
        for channel, decoder in decoders.items():
            if rest := decoder.flush():
                await tell(channel, rest)
        return outcome

    async def carry_out(self, method: str, params: dict[str, Any]) -> Any:
        """Carry out a method other than ``run`` and ``stream``."""
        return await getattr(self, f"_{method.replace('.', '_')}")(**params)

    async def _session_restart(self, name: str) -> None:
        await self._env.session(name).restart()

    async def _session_close(self, name: str) -> None:
        await self._env.session(name).aclose()

    async def _jobs_start(self, reach: str | dict[str, Any] | None, **options: Any) -> dict[str, Any]:
        return _job_facts(await self._env.start(**options, reach=_reach(reach)))

    async def _jobs_list(self) -> dict[str, Any]:
        return {"jobs": [_job_facts(job) for job in self._env.jobs.list()]}

    async def _jobs_output(self, job: str, since: int, limit: int, wait: float) -> dict[str, Any]:
        piece = await self._env.jobs.get(job).output(since, limit=limit, wait=wait)
        told = {name: getattr(piece, name) for name in ("text", "offset", "total_bytes", "omitted_bytes")}
        return told | {"running": self._env.jobs.get(job).status == "running"}

    async def _jobs_send(self, job: str, data: str, close: bool) -> dict[str, Any]:
        return {"taken": await self._env.jobs.get(job).send(data, close=close)}

    async def _jobs_wait(self, job: str, timeout: float | None) -> dict[str, Any]:
        await (waited := self._env.jobs.get(job)).wait(timeout=timeout)
        return _job_facts(waited)

    async def _jobs_stop(self, job: str) -> dict[str, Any]:
        await (stopped := self._env.jobs.get(job)).stop()
        return _job_facts(stopped)

    async def _files_read(self, path: str, offset: int, length: int, encoding: str) -> dict[str, Any]:
        data = await self._env.files.read(path, offset=offset, length=length)
        if encoding == "base64":
            return {"data": base64.b64encode(data).decode(), "size": len(data)}
        try:
            return {"data": data.decode(), "size": len(data)}
        except UnicodeDecodeError:
            raise InvalidCommand('that part is not UTF-8: read it with "encoding": "base64"') from None

    async def _files_write(self, path: str, data: str, encoding: str, append: bool) -> None:
        try:
            raw = base64.b64decode(data, validate=True) if encoding == "base64" else data.encode()
        except (binascii.Error, ValueError):
            raise InvalidCommand(f"data is not {encoding}; bytes of any kind are base64") from None
        await self._env.files.write(path, raw, append=append)

    async def _files_list(self, path: str) -> dict[str, Any]:
        return {"names": await self._env.files.list(path)}

    async def _files_stat(self, path: str) -> FileStat:
        return await self._env.files.stat(path)

    async def _files_mkdir(self, path: str, parents: bool) -> None:
        await self._env.files.mkdir(path, parents=parents, exist_ok=parents)

    async def _files_remove(self, path: str, recursive: bool) -> None:
        await self._env.files.remove(path, recursive=recursive)


def _reach(given: str | dict[str, Any] | None) -> Reach | None:
    if given is None:
        return None
    from ..reach import read_reach  # here, since few requests have a reach

    return read_reach(given)


def _job_facts(job: Job) -> dict[str, Any]:
    names = ("command", "status", "exit_code", "pid", "printed")
    return {"job": job.id, **{name: getattr(job, name) for name in names}}


def schema() -> dict[str, Any]:
    """Return the JSON schema of a line, in either direction."""
    known_id = {"type": ["string", "integer"]}
    requests = []
    for name, model in METHODS.items():
        names = [name, *(other for other, meant in ALSO_CALLED.items() if meant == name)]
        request = _object(id=known_id, method={"enum": names}, params=model.model_json_schema())
        if not any(field.is_required() for field in model.model_fields.values()):
            request["required"].remove("params")
        requests.append(request)
    outcome = _object(**{field.name: {} for field in fields(Outcome) if not field.name.startswith("_")})
    data = {"channel": {"enum": ["stdout", "stderr"]}, "data": {"type": "string"}}
    error = _object(code={"enum": ERRORS}, message={"type": "string"}, type={"type": ["string", "null"]})
    answers = [
        _object(id=known_id, event={"const": "output"}, **data),
        _object(id=known_id, result={"anyOf": [outcome, {"type": "object"}]}),
        _object(id={"type": ["string", "integer", "null"]}, error=error),
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"anyshell rpc, version {VERSION}: one line",
        "anyOf": [{"title": "a request", "anyOf": requests}, {"title": "an answer", "anyOf": answers}],
    }


def _object(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
