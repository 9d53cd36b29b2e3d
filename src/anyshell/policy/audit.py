"""The audit: requests, decisions with their source, and outcomes, as lines of JSON.

The audit is a directory of files. Each file belongs to one process; processes share no file, so no lock is needed. Each line
has its own SHA-256 and the hash of the line before it. The first line of a file has the last hash of the file before. So a
changed, moved or removed line shows. The chain does not show three faults: missing lines at the end of a file that was not
closed, as after a kill; missing files before the first file; an audit that a user with write permission has made anew as a
whole.
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
"""Bytes of a file of the audit, unless `Audit(file_size=)` sets another size; the next line begins another file."""

MAX_FILES = 64
"""Files of the audit, unless `Audit(max_files=)` sets another number; a new file removes the oldest files."""

LONGEST_TEXT = 32 * 1024
"""Characters of a command, or another text, in the audit; a longer text is cut, with its length and its SHA-256 added."""

LONGEST_LINE = 1024 * 1024
"""Bytes of a line that is read; a longer line is an error of the file."""

_REQUEST: ContextVar[str] = ContextVar("anyshell_audited_request", default="")
"""The id of the request that is being carried out; empty if there is none."""

_SUFFIX = ".jsonl"
_HASH = b',"hash":"'
_REFUSAL = "the directory for the audit is refused: {fault}; give another"
_NO_LINE = "0" * 64


class Audit:
    """A record of requested commands, decisions and outcomes. Creating an `Audit` touches nothing on disk.

    Args:
        directory: The directory of the files, accessible for the owner only. ``None`` means ``audit`` below
            ``$ANYSHELL_STATE_DIR``, or below the user's own state directory.
        required: Whether a command that cannot be recorded is refused. If not, `error` gives the reason.
        redaction: The masking of secrets in every text; ``None`` masks nothing.
        file_size: Bytes of a file.
        max_files: Files in the directory, of all processes.

    Attributes:
        error: The reason why the last line was not written; ``None`` if the last line was written.
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
            OSError: No directory was given, and the user has no home directory.
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
        """Record that a command was requested, and return the id of the request.

        Args:
            command: The text of the command.
            tool: The name of the called tool.
            call: The id of the tool call.
            host: The host on which the command is to run.
            cwd: The working directory of the command.
            env: The command's own variables. Their names are recorded; secret values are masked, as this process's are.
            to: The id of a job or a terminal, if the command is input for the job or terminal.

        Raises:
            AnyshellError: The request cannot be recorded, and recording is required.
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
        """Record commands that run within this context as part of a request."""
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
            rule: The rule that decided.
            reason: The reason for the decision.
            command: The approved text, if it differs from the requested text.

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
        """Record the end of a command. The method never raises: the command has already run.

        Args:
            request: The id of the request.
            outcome: The outcome of the command.
            status: The status in one word, if there is no outcome.
            error: The reason why there is no outcome.
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
        """Record that a command is about to run, and return the entry that records its start and end.

        Raises:
            AnyshellError: As for `requested`.
        """
        return AuditEntry(self, _REQUEST.get() or self.requested(command, host=host, cwd=cwd, env=env))

    def close(self) -> None:
        """Write the last line of the file. Later records begin another file."""
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
                    f"{self.error}; with required= nothing runs without a record: mend the cause, or leave out required="
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
            path.unlink()  # or each attempt would leave a file, and older files would be removed for it
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
            self._close()  # the file may end with a part of a line: the next line begins another file
            self._name = ""
            raise
        self._count, self._last = self._count + 1, digest

    def _close(self) -> None:
        with suppress(OSError):
            os.close(self._fd)
        self._fd = -1


class AuditEntry:
    """The record of one run of a command."""

    def __init__(self, audit: Audit, request: str) -> None:
        self._audit = audit
        self._request = request

    def take(self, process: Process) -> Process:
        """Record the start of a process, and return the process."""
        with suppress(AnyshellError):  # the process runs already, and its request is recorded
            self._audit.started(self._request, pid=process.pid)
        return process

    def end(self, outcome: Outcome | None = None, *, error: str = "") -> None:
        """Record the end of the run."""
        self._audit.ended(self._request, outcome, error=error)


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault in an audit.

    Attributes:
        file: The file.
        line: The line, counted from 1.
        text: The fault, as a clause about the line.
    """

    file: Path
    line: int
    text: str


def files(directory: Path) -> list[Path]:
    """Return the files of an audit, the oldest first; empty if the directory does not exist.

    Raises:
        OSError: The directory cannot be read.
    """
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == _SUFFIX)
    except FileNotFoundError:
        return []


def entries(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of an audit, file by file, each with its ``file``. Other lines are skipped; `verify` reports them.

    Raises:
        OSError: A file cannot be read.
    """
    for path in files(directory):
        for _, line in _lines(path):
            entry = _parsed(line)
            if entry is not None:
                yield {**entry, "file": path.name}


def verify(directory: Path) -> list[Problem]:
    """Return the faults in the chain of an audit.

    Raises:
        OSError: A file cannot be read.
    """
    problems: list[Problem] = []
    ends: dict[str, tuple[str, Any]] = {}
    follows: list[tuple[Path, dict[str, Any]]] = []
    found = files(directory)
    # Each line has its own hash and the hash of the line before. The first line of a file names the previous file and its
    # last hash. So a changed line breaks its own hash. A removed line breaks the next line, or the link between two files.
    for path in found:
        last, event, number, expected = _NO_LINE, None, 0, 1
        for number, line in _lines(path):
            entry = _parsed(line)
            body, _, said = line.rpartition(_HASH)
            digest = hashlib.sha256(body + b"}").hexdigest()
            if entry is None:
                problems.append(Problem(path, number, "is not a line of an audit, or was cut"))
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
