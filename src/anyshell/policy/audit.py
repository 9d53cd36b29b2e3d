"""The audit: requests, decisions with their source, and outcomes, as lines of JSON.

A directory, and in it files of one process each, which share nothing and so need no lock. Each line has the SHA-256 of itself
and of the line before it, and the first line of a file the last one of the file before: a line that is changed, moved or taken
out shows. What the chain cannot show: that lines are missing at the end of a file that was not closed, as that of a killed
process, or files before the first; nor that a user with the right to write has made all of it anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .._exceptions import AnyshellError, InvalidCommand
from .._private import check_directory, create_file, make_directories, state_directory
from .._types import check_count, check_text
from .redaction import Redaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .._types import Outcome
    from ..abc import Process

FILE_SIZE = 16 * 1024 * 1024
"""Bytes of a file of the audit, unless `Audit(file_size=)` says otherwise; the next line begins another file."""

MAX_FILES = 64
"""Files of the audit, unless `Audit(max_files=)` says otherwise; with a new file, the oldest are removed."""

LONGEST_TEXT = 32 * 1024
"""Characters of a command, or another text, in the audit; of a longer one the beginning, its length and its SHA-256."""

LONGEST_LINE = 1024 * 1024
"""Bytes of a line that is read; a longer one is an error of the file."""

_REQUEST: ContextVar[str] = ContextVar("anyshell_audited_request", default="")
"""The request that is carried out."""

_SUFFIX = ".jsonl"
_HASH = b',"hash":"'
_REFUSAL = "the directory for the audit is refused: {fault}; give another"
_NO_LINE = "0" * 64


class Audit:
    """Records what is asked for and what becomes of it. Making one touches nothing on disk.

    Args:
        directory: The directory of the files, made for their owner alone. ``None`` is ``audit`` below ``$ANYSHELL_STATE_DIR``, or
            below the user's own state directory.
        required: Whether a command that cannot be recorded is refused. Otherwise `error` says why it was not recorded.
        redaction: The masking of secrets in every text; ``None`` masks nothing.
        file_size: Bytes of a file.
        max_files: Files in the directory, of all processes.

    Attributes:
        error: Why the last line was not written; ``None`` when it was.
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        *,
        required: bool = False,
        redaction: Redaction | None = Redaction(),  # noqa: B008 - it is frozen
        file_size: int = FILE_SIZE,
        max_files: int = MAX_FILES,
    ) -> None:
        if directory is not None:
            check_text("directory", os.fspath(directory) if isinstance(directory, os.PathLike) else directory)
            if directory == "":
                raise InvalidCommand("directory is empty: give one, or leave it out for the user's own")
        check_count("file_size", file_size)
        check_count("max_files", max_files, least=2)
        self.required = required
        self.error: str | None = None
        self._directory = None if directory is None else Path(directory).absolute()
        self._redaction = redaction
        self._file_size = file_size
        self._max_files = max_files
        self._lock = threading.Lock()
        self._fd = -1
        self._pid = 0
        self._size = 0
        self._count = 0
        self._name = ""
        self._last = _NO_LINE

    @property
    def directory(self) -> Path:
        """The directory of the files.

        Raises:
            OSError: The user has no home directory, and none was given.
        """
        return self._directory or state_directory("audit")

    def requested(
        self,
        command: str,
        *,
        tool: str = "",
        call: str = "",
        host: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        to: str = "",
    ) -> str:
        """Record that a command was asked for, and give the id of the request.

        Args:
            command: Its text.
            tool: The tool that was called.
            call: The id of that call.
            host: The host on which it is to run.
            cwd: In which directory.
            env: Its variables: their names are recorded, their values masked, as those of this process are.
            to: The id of a job or a terminal, if the command is input for that.

        Raises:
            AnyshellError: It cannot be recorded, and that is required.
        """
        request = secrets.token_hex(8)
        masked = self._masked(command, env)
        self._write(
            "requested",
            request,
            command=masked,
            tool=tool,
            call=self._masked(call, env),
            host=host,
            cwd=cwd and self._masked(cwd, env),
            env=sorted(env or ()),
            to=to,
        )
        return request

    @contextmanager
    def carrying_out(self, request: str) -> Iterator[None]:
        """Have what is run within count as that request."""
        token = _REQUEST.set(request)
        try:
            yield
        finally:
            _REQUEST.reset(token)

    def decided(
        self,
        request: str,
        action: Literal["allow", "ask", "deny"],
        *,
        by: str,
        rule: str = "",
        reason: str = "",
        command: str | None = None,
    ) -> None:
        """Record a verdict.

        Args:
            request: The id of the request.
            action: The decision.
            by: The source of the decision: ``policy``, or the name of an approver.
            rule: By which rule.
            reason: Why.
            command: The approved text, where it differs from the requested one.

        Raises:
            AnyshellError: As for `requested`.
        """
        masked = None if command is None else self._masked(command, None)
        self._write(
            "decided", request, action=action, by=by, rule=rule, reason=self._masked(reason), command=masked
        )

    def started(self, request: str, **facts: str | int | None) -> None:
        """Record that a program was started, with facts such as its ``pid``.

        Raises:
            AnyshellError: As for `requested`.
        """
        self._write("started", request, **facts)

    def ended(
        self, request: str, outcome: Outcome | None = None, *, status: str = "", error: str = ""
    ) -> None:
        """Record how a command has ended. Never raises: it has run.

        Args:
            request: The id of the request.
            outcome: The outcome of the command.
            status: The same in a word, where there is no outcome.
            error: The reason why no outcome is there.
        """
        facts: dict[str, Any] = {"status": status, "error": self._masked(error)}
        if outcome is not None:
            facts = {
                "status": outcome.status,
                "exit_code": outcome.exit_code,
                "signal": outcome.signal,
                "duration": round(outcome.duration, 3),
                "output_bytes": outcome.output.total_bytes
                + (outcome.stderr.total_bytes if outcome.stderr else 0),
                "masked": outcome.output.masked + (outcome.stderr.masked if outcome.stderr else 0),
            }
        with suppress(AnyshellError):
            self._write("ended", request, **facts)

    def entry(self, command: str, *, host: str, cwd: str, env: Mapping[str, str]) -> AuditEntry:
        """Record that a command is about to be run, and give what records the rest.

        Raises:
            AnyshellError: As for `requested`.
        """
        return AuditEntry(self, _REQUEST.get() or self.requested(command, host=host, cwd=cwd, env=env))

    def close(self) -> None:
        """Write the last line of the file. What is recorded after that begins another file."""
        with self._lock:
            if self._fd >= 0 and self._pid == os.getpid():
                with suppress(OSError):
                    self._append({"event": "closed"})
                self._close()

    def _masked(self, text: str, env: Mapping[str, str] | None = None) -> str:
        if self._redaction is not None and text:
            text = self._redaction.masks(os.environ, env or {}).text(text)
        if len(text) <= LONGEST_TEXT:
            return text
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        return f"{text[:LONGEST_TEXT]}… ({len(text)} characters, SHA-256 {digest})"

    def _write(self, event: str, request: str, **facts: Any) -> None:
        entry = {"event": event, "request": request}
        entry.update((name, value) for name, value in facts.items() if value not in (None, "", []))
        try:
            with self._lock:
                if self._fd >= 0 and self._pid == os.getpid() and self._size >= self._file_size:
                    self._append({"event": "continued"})
                    self._close()
                if self._fd < 0 or self._pid != os.getpid():
                    self._open()
                self._append(entry)
            self.error = None
        except OSError as error:
            self.error = f"the audit in {self._directory or 'its directory'} cannot be written: {error.strerror or error}"
            if self.required:
                raise AnyshellError(
                    f"{self.error}; nothing runs that is not recorded: see to it, or leave required= out"
                ) from error

    def _open(self) -> None:
        directory = self.directory
        make_directories(directory)
        check_directory(directory, refusal=_REFUSAL)
        before = {"file": self._name, "hash": self._last} if self._name and self._pid == os.getpid() else None
        now = time.time_ns()
        when = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now // 10**9))
        self._name = f"{when}-{now % 10**9:09}-{secrets.token_hex(4)}{_SUFFIX}"
        path = directory / self._name
        self._fd = create_file(str(path))
        self._pid, self._size, self._count, self._last = os.getpid(), 0, 0, _NO_LINE
        try:
            self._append({"event": "opened", "pid": self._pid, "follows": before})
        except OSError:
            path.unlink()  # or each try would leave one, and older ones would be removed for it
            raise
        for old in files(directory)[: -self._max_files]:
            with suppress(OSError):
                old.unlink()

    def _append(self, entry: dict[str, Any]) -> None:
        head = {"line": self._count + 1, "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        body = json.dumps({**head, **entry, "before": self._last}, separators=(",", ":")).encode()
        digest = hashlib.sha256(body).hexdigest()
        data = body[:-1] + _HASH + digest.encode() + b'"}\n'
        try:
            while data:
                written = os.write(self._fd, data)
                self._size += written
                data = data[written:]
        except OSError:
            self._close()  # a part of a line may be there: the next line begins another file
            self._name = ""
            raise
        self._count, self._last = self._count + 1, digest

    def _close(self) -> None:
        with suppress(OSError):
            os.close(self._fd)
        self._fd = -1


class AuditEntry:
    """Records one run."""

    def __init__(self, audit: Audit, request: str) -> None:
        self._audit = audit
        self._request = request

    def take(self, process: Process) -> Process:
        """Take the program that was started, and give it."""
        with suppress(AnyshellError):  # it runs already, and its request is recorded
            self._audit.started(self._request, pid=process.pid)
        return process

    def end(self, outcome: Outcome | None = None, *, error: str = "") -> None:
        """Record how it has ended."""
        self._audit.ended(self._request, outcome, error=error)


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault in an audit.

    Attributes:
        file: The file.
        line: The line, counted from 1.
        text: The mistake.
    """

    file: Path
    line: int
    text: str


def files(directory: Path) -> list[Path]:
    """The files of an audit, the oldest first; none where there is no directory.

    Raises:
        OSError: The directory cannot be read.
    """
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == _SUFFIX)
    except FileNotFoundError:
        return []


def entries(directory: Path) -> Iterator[dict[str, Any]]:
    """The entries of an audit, file by file, each with its ``file``. What is no entry is passed over; `verify` names it.

    Raises:
        OSError: A file cannot be read.
    """
    for path in files(directory):
        for _, line in _lines(path):
            entry = _parsed(line)
            if entry is not None:
                yield {**entry, "file": path.name}


def verify(directory: Path) -> list[Problem]:
    """Find what is wrong with the chain of an audit.

    Raises:
        OSError: A file cannot be read.
    """
    problems: list[Problem] = []
    ends: dict[str, tuple[str, Any]] = {}
    follows: list[tuple[Path, dict[str, Any]]] = []
    found = files(directory)
    # Each line has the hash of itself and of the line before. The first line of a file names the file and the hash that it
    # follows. So a change breaks its own line, and a removal the next line, or the link between two files.
    for path in found:
        last, event, number, expected = _NO_LINE, None, 0, 1
        for number, line in _lines(path):
            entry = _parsed(line)
            body, _, said = line.rpartition(_HASH)
            digest = hashlib.sha256(body + b"}").hexdigest()
            if entry is None:
                problems.append(Problem(path, number, "is no line of an audit, or was cut"))
            elif said.decode(errors="replace") != f'{digest}"}}':
                problems.append(Problem(path, number, "was changed: its hash is another"))
            elif entry.get("before") != last or entry.get("line") != expected:
                problems.append(
                    Problem(
                        path,
                        number,
                        "does not follow the line before it: lines were taken out, put in or moved",
                    )
                )
            last, event = said.decode(errors="replace")[:64], entry and entry.get("event")
            expected = 1 + (entry["line"] if entry and isinstance(entry.get("line"), int) else expected)
            if number == 1 and entry is not None and isinstance(entry.get("follows"), dict):
                follows.append((path, entry["follows"]))
        if number == 0:
            problems.append(Problem(path, 1, "is missing: the file is empty"))
        ends[path.name] = (last, event)
    followed = {before.get("file") for _, before in follows}
    for path, before in follows:
        end = ends.get(str(before.get("file")))
        if end is None:
            if any(each.name < str(before.get("file")) for each in found):
                problems.append(
                    Problem(
                        path, 1, f"follows {before.get('file')}, which is not there, though older files are"
                    )
                )
        elif end[0] != before.get("hash"):
            problems.append(
                Problem(path, 1, f"follows {before.get('file')}, which has another last line now")
            )
    problems += [
        Problem(directory / name, 0, "says that it is continued, and no file follows it")
        for name, (_, event) in ends.items()
        if event == "continued" and name not in followed
    ]
    return problems


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            yield number, line.removesuffix(b"\n")


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and _HASH in line else None
