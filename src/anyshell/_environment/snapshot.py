"""The snapshot of the user's own set-up: a file on the host, which a shell reads before its first command.

To capture a snapshot, the user's shell reads its startup file as for a person, and reports its state afterwards. That shell
runs in a process tree of its own, which is stopped like any command. The snapshot file has a text that recreates the
state, and a digest of every file that was read. When one of these files has changed, a new snapshot is captured.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import re
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from .. import _engine
from .._exceptions import InvalidCommand, SpawnError
from .._types import LONGEST_NAME, Spawn
from ..output import OutputBuilder
from ..shells.snapshot import DIALECTS, LOOK, RESERVED, holds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from .._types import Channel, HostInfo, Outcome, ShellInfo
    from ..abc import Backend
    from ..shells.snapshot import Definition

SNAPSHOT_SECONDS = 10.0
"""Seconds for the user's startup file; then the shell and its descendants are asked to end, and there is no snapshot."""

SNAPSHOT_GRACE = 1.0
"""Seconds between the request to end and the kill of a shell whose startup file took too long."""

LOOK_SECONDS = 5.0
"""Seconds for the host to report the directory of snapshots and its content; then there is no snapshot."""

ENSURE_SECONDS = 30.0
"""Seconds to find or make a snapshot, the host's files included; then there is no snapshot."""

LONGEST_TOLD = 8 * 1024 * 1024
"""Bytes that a shell may report of its set-up; with more there is no snapshot."""

_LONGEST_SNAPSHOT = 40 * 1024 * 1024
"""Bytes of a snapshot that are read: a quote takes four bytes when quoted. A longer snapshot counts as damaged."""

LONGEST_FILE = 1024 * 1024
"""Bytes at the start of a startup file that are checked for a change; a change beyond them is not noticed."""

KEPT = 8
"""Snapshots that are kept on a host; when a snapshot is added, the oldest are removed."""

MOST_NAMED = 5
"""Functions and aliases that a notice names one by one; of the rest, their number."""

_REMOVE_SECONDS = 1.0
"""Seconds to remove the file of a snapshot that could not be written; then the file stays until it is the oldest."""

_UNUSED = "your own set-up is not used"

_FORM = "anyshell snapshot 1"

# A snapshot, or the partial file of a writer that was killed.
_NAME = re.compile(r"[0-9a-f]{32}\.(?:bash|zsh|sh)(?:\.[0-9a-f]{8}\.part)?\Z")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The captured set-up.

    Attributes:
        text: Shell text that recreates the set-up in a fresh shell of the same kind.
        files: The user's files that were read.
        notices: Facts for a person, one sentence each, such as a file that failed.
    """

    text: str
    files: tuple[str, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """The file on the host that keeps the set-up.

    Attributes:
        path: The file, absolute on the host; ``None`` without a snapshot. `notices` then has the reason.
        notices: Facts for a person, one sentence each.
    """

    path: str | None = None
    notices: tuple[str, ...] = ()


async def ensure(
    backend: Backend,
    info: HostInfo,
    shell: ShellInfo,
    *,
    settings: Mapping[str, str],
    unset: Collection[str],
) -> SnapshotFile:
    """Find the snapshot of the user's set-up on the host, or capture one.

    A fault of the user's files is never raised. The call takes at most `ENSURE_SECONDS`, and the time to stop a shell that
    hangs.

    Args:
        backend: The backend of the host.
        info: The facts of the host.
        shell: The shell that reads the user's file, and later the snapshot.
        settings: Variables of the commands, which the file sees as well.
        unset: The host's own variables that commands do not have.

    Raises:
        AnyshellError: The host cannot be reached.
    """
    if shell.kind not in DIALECTS or shell.on_windows:  # capture and storage use POSIX programs
        return SnapshotFile(None, (f"{_UNUSED}: there are no snapshots of {shell.name}",))
    keeper = _Keeper(backend, info, shell, settings=settings, unset=unset)
    with anyio.move_on_after(ENSURE_SECONDS):
        try:
            return await keeper.ensure()
        except (OSError, InvalidCommand, SpawnError) as error:
            return SnapshotFile(None, (f"{_UNUSED}: its snapshot cannot be made or kept: {error}",))
    return SnapshotFile(None, (f"{_UNUSED}: the host took longer than {ENSURE_SECONDS:g} s",))


async def capture(
    backend: Backend,
    info: HostInfo,
    shell: ShellInfo,
    *,
    places: Sequence[str],
    settings: Mapping[str, str],
    unset: Collection[str],
) -> Snapshot | SnapshotFile:
    """Let the user's shell read its startup file, and capture the shell's state afterwards.

    The shell has no terminal, and its input is end-of-file. Output of the file is dropped.

    Args:
        backend: The backend of the host.
        info: The facts of the host.
        shell: The user's shell.
        places: The startup file; for zsh the directory of ``.zshenv``, and the user's home.
        settings: Variables that the file sees.
        unset: The host's own variables that the file does not see.

    Returns:
        The snapshot; or a `SnapshotFile` without a path, with the reason, if the capture failed.
    """
    dialect = DIALECTS[shell.kind]
    spawn = Spawn(
        argv=dialect.capture(shell.path, places),
        cwd=info.home,
        settings={**settings, "PWD": info.home},
        unset=frozenset(unset),
    )
    outcome, told = await _ask(backend, spawn, seconds=SNAPSHOT_SECONDS)
    # After a stop, a file may have gone on after its waiting program was ended: the state is not the user's set-up.
    set_up = dialect.understand(told) if outcome.status == "exited" else None
    if set_up is None:
        return SnapshotFile(None, (f"{_UNUSED}: {_why(outcome, told, shell)}",))
    roots = {entry.name for entry in await backend.files.list("/")}
    values = set_up.values.difference(*(value.splitlines() for value in settings.values()))
    kept, dropped = _without_secrets(set_up.definitions, values, roots)
    notices = [notice for path, fate in set_up.files.items() if (notice := _fate(path, fate))]
    if dropped:
        notices.append(
            f"left out, because they contain the value of an exported variable: {_named(dropped)}; write $NAME there"
        )
    if unusable := [each for each in kept if each.kind == "function" and each.name == RESERVED]:
        notices.append(f"left out: {_named(unusable)}, which would hide the shell's own")
        kept = [each for each in kept if each not in unusable]
    text = dialect.recreate(replace(set_up, definitions=tuple(kept)))
    return Snapshot(text, tuple(set_up.files), tuple(notices))


class _Keeper:
    """The keeper of one user's snapshots on one host."""

    def __init__(
        self,
        backend: Backend,
        info: HostInfo,
        shell: ShellInfo,
        *,
        settings: Mapping[str, str],
        unset: Collection[str],
    ) -> None:
        self._backend = backend
        self._files = backend.files
        self._info = info
        self._shell = shell
        self._settings = settings
        self._unset = unset

    async def ensure(self) -> SnapshotFile:
        """Find the snapshot, or capture and keep a new one."""
        found = await self._look()
        if found is None:
            return SnapshotFile(None, (f"{_UNUSED}: the host did not say where to keep it",))
        if not found.private:
            why = f"{found.directory} cannot be made, or is not a directory of yours alone"
            return SnapshotFile(None, (f"{_UNUSED}: {why}",))
        places = found.places(self._shell)
        if not places:
            return SnapshotFile(None, (f"{_UNUSED}: sh reads the file that ENV names, and ENV is not set",))
        name = self._name(found, places)
        path = posixpath.join(found.directory, name)
        if name in found.names and (kept := await self._kept(path)) is not None:
            return kept
        before = await self._digests(_candidates(self._shell, places))
        snapshot = await capture(
            self._backend, self._info, self._shell, places=places, settings=self._settings, unset=self._unset
        )
        if isinstance(snapshot, SnapshotFile):
            return snapshot
        # The digests of before the capture win: if a file changes during the capture, the next caller sees a change.
        digests = {**await self._digests(snapshot.files), **before}
        await self._write(path, snapshot, {file: digests[file] for file in snapshot.files})
        for old in [each for each in found.names if each != name][KEPT - 1 :]:
            with contextlib.suppress(OSError):
                await self._files.remove(posixpath.join(found.directory, old))
        return SnapshotFile(path, snapshot.notices)

    async def _look(self) -> _Answers | None:
        spawn = Spawn(argv=("/bin/sh", "-c", LOOK, "sh"), cwd="/", unset=frozenset({"BASH_ENV"}))
        _, told = await _ask(self._backend, spawn, seconds=LOOK_SECONDS)
        parts = told.decode(errors="surrogateescape").split("\0")
        if len(parts) < 8 or parts[-1] != "end":
            return None
        home, zdotdir, env, search_path, directory, newest, trusted = parts[:7]
        private = {line.removeprefix("./") for line in trusted.splitlines()}
        names = tuple(name for name in newest.splitlines() if name in private and _NAME.match(name))
        return _Answers(home, zdotdir, env, search_path, directory, "." in private, names)

    def _name(self, found: _Answers, places: Sequence[str]) -> str:
        # The key has PATH: a snapshot sets no other variable, and a startup file usually adds to the former PATH.
        shell = self._shell
        key = (_FORM, shell.kind, shell.path, shell.version, found.home, found.search_path, *places)
        return f"{_digest(json.dumps(key).encode())[:32]}.{shell.kind}"

    async def _digests(self, paths: Collection[str]) -> dict[str, str | None]:
        """Digest the user's files; ``None`` for a file that is missing or cannot be read."""
        found: dict[str, str | None] = {}
        for path in paths:
            try:
                found[path] = _digest(await self._files.read(path, length=LONGEST_FILE))
            except OSError:
                found[path] = None
        return found

    async def _kept(self, path: str) -> SnapshotFile | None:
        """Return the kept snapshot, if the snapshot is whole and no startup file has changed."""
        try:
            data = await self._files.read(path, length=_LONGEST_SNAPSHOT)
            head, _, text = data.partition(b"\n")
            facts = json.loads(head.removeprefix(b"# "))
            if facts["form"] != _FORM or facts["digest"] != _digest(text):
                return None
            files: dict[str, str | None] = facts["files"]
            notices = tuple(map(str, facts["notices"]))
            return SnapshotFile(path, notices) if await self._digests(files) == files else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None  # damaged: a new snapshot is made

    async def _write(self, path: str, snapshot: Snapshot, files: Mapping[str, str | None]) -> None:
        text = snapshot.text.encode(errors="surrogateescape")
        facts = {"form": _FORM, "digest": _digest(text), "files": files, "notices": snapshot.notices}
        data = b"# " + json.dumps(facts).encode() + b"\n" + text
        part = f"{path}.{secrets.token_hex(4)}.part"
        try:
            await self._files.write_chunks(part, _once(data), mode=0o600)
            await self._files.rename(part, path)
        except BaseException:
            with contextlib.suppress(OSError), anyio.move_on_after(_REMOVE_SECONDS, shield=True):
                await self._files.remove(part)
            raise


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of the host before a capture.

    Attributes:
        home: The user's home directory.
        zdotdir: The value of ZDOTDIR, zsh's directory instead of the home; empty if not set.
        env: The value of ENV.
        search_path: The value of PATH.
        directory: The directory of snapshots.
        private: Whether the directory of snapshots is the user's, and no other user can write in it.
        names: The snapshots that no other user can have written, the newest first.
    """

    home: str
    zdotdir: str
    env: str
    search_path: str
    directory: str
    private: bool
    names: tuple[str, ...]

    def places(self, shell: ShellInfo) -> tuple[str, ...]:
        """Return the paths of the user's startup files; empty if the shell has no startup file."""
        if shell.kind == "bash":
            return (posixpath.join(self.home, ".bashrc"),)
        if shell.kind == "zsh":
            return (self.zdotdir or self.home, self.home)
        if not self.env:
            return ()
        # Only the usual expansions. A path with another expansion stays unexpanded, and names no file.
        expanded = re.sub(r"\A~(?=/)|\$HOME\b|\$\{HOME\}", lambda _: self.home, self.env)
        return (posixpath.join(self.home, expanded),)


def _candidates(shell: ShellInfo, places: Sequence[str]) -> tuple[str, ...]:
    if shell.kind == "zsh":
        return tuple(posixpath.join(places[0], name) for name in (".zshenv", ".zshrc"))
    return tuple(places)


async def _ask(backend: Backend, spawn: Spawn, *, seconds: float) -> tuple[Outcome, bytes]:
    """Run one program to its end and return its raw output; no process of the program survives."""
    told = bytearray()
    control = _engine.Control()

    async def listen(_: Channel, data: bytes) -> None:
        told.extend(data[: LONGEST_TOLD - len(told)])
        if len(told) >= LONGEST_TOLD:
            control.cancel()

    outcome = await _engine.run(
        backend,
        spawn,
        output=OutputBuilder(head=0, tail=0, max_line=1),
        timeout=seconds,
        grace=SNAPSHOT_GRACE,
        listener=listen,
        control=control,
    )
    return outcome, bytes(told)


def _why(outcome: Outcome, told: bytes, shell: ShellInfo) -> str:
    files = {"bash": "~/.bashrc", "zsh": "~/.zshrc or ~/.zshenv", "sh": "the file that ENV names"}[shell.kind]
    if outcome.status == "timed_out":
        return f"{files} took longer than {SNAPSHOT_SECONDS:g} s"
    if len(told) >= LONGEST_TOLD:
        return f"{files} makes more than {LONGEST_TOLD // 2**20} MiB of functions and aliases"
    return f"{files} did not run to the end; exec may have replaced the shell"


def _fate(path: str, fate: str) -> str | None:
    """Return a notice about the fate of a startup file, if a person should know."""
    word, _, code = fate.partition(" ")
    if word == "unreadable":
        return f"{path} cannot be read"
    if word == "ended":
        return f"{path} ended the shell with {code}: the rest of the file is missing"
    if word == "returned" and code != "0":
        return f"{path} returned {code}"
    return None


def _without_secrets(
    definitions: Sequence[Definition], values: Collection[str], roots: Collection[str]
) -> tuple[list[Definition], list[Definition]]:
    """Separate the definitions that contain the value of a variable, unless the value is a path.

    Args:
        definitions: Functions and aliases.
        values: Values of exported variables, without those that anyshell sets.
        roots: Names in the root directory, which identify a value as a path.
    """
    secret = [value for value in values if not all(_is_path(part, roots) for part in value.split(":"))]
    dropped = [each for each in definitions if any(holds(each, value) for value in secret)]
    return [each for each in definitions if each not in dropped], dropped


def _is_path(text: str, roots: Collection[str]) -> bool:
    return not text or (text.startswith("/") and text.split("/")[1] in roots)


def _named(definitions: Sequence[Definition]) -> str:
    said = [f"{each.kind} {each.name[:LONGEST_NAME]}" for each in definitions[:MOST_NAMED]]
    more = len(definitions) - len(said)
    return ", ".join(said) + (f" and {more} more" if more else "")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
