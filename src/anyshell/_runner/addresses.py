"""Internal addresses in a command become paths on its host: `artifact://ID`, `workspace://a.txt`, and the caller's own.

A command is expanded before it is decided on, and the expansion changes nothing: even a path that exists only while the
command runs is known before. The needed files are put in place right before the command, and removed when it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import ntpath
import os
import posixpath
import re
from collections import Counter
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import anyio

from .. import shells
from .._exceptions import AnyshellError, BackendError, InvalidCommand
from .._types import cut_name
from .._waits import in_a_worker, to_the_end
from ..backends import here

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from types import ModuleType

    from .._types import Command, HostInfo, Resolved, ShellInfo
    from ..abc import Backend, Resolver
    from ..output import ArtifactStore
    from ..output.selection import ArtifactAddress

MOST_ADDRESSES = 100
"""Internal addresses in one command; more are an error."""

RESOLVING_SECONDS = 10.0
"""Seconds for resolving the addresses of one command; then nothing runs."""

PLACING_SECONDS = 120.0
"""Seconds for putting the files of a command's addresses on its host; then the command is not run."""

CLEANING_SECONDS = 10.0
"""Seconds for removing these files after the command; then they are left there."""

_LONGEST_NAME = 80
"""Characters of a copy's name that come from the name of its source."""

_CREATES: Mapping[str, float] = {"nothing": 0, "file": 1, "directories": float("inf")}


class _Place(NamedTuple):
    """A path that must exist while a command runs.

    Attributes:
        path: The path on the host of the command.
        resolved: The target of the address.
        copied: Whether a copy is put there for the command alone.
        source: The path on this machine of the copy's source.
        parent: A directory on the host that is made.
    """

    path: str
    resolved: Resolved
    copied: bool = False
    source: str = ""
    parent: str = ""


class Expanded(str):
    """The text of a command whose addresses are already paths: no later layer expands the text again.

    Attributes:
        places: The paths that must exist while the command runs.
    """

    places: tuple[_Place, ...]

    def __new__(cls, text: str, places: Iterable[_Place]) -> Expanded:
        """Join the text with the paths that it needs."""
        self = super().__new__(cls, text)
        self.places = tuple(places)
        return self

    def will_have(self, path: str) -> bool:
        """Return whether a path exists once the command runs, and not before."""
        return any(place.path == path and (place.copied or place.parent) for place in self.places)


class Addresses:
    """The internal addresses of one environment.

    Args:
        backend: Has the files of the host.
        info: The host's facts.
        shell: The shell that commands are quoted for.
        directory: The target of ``workspace://``; absolute.
        store: The store that ``artifact://`` reads; ``None`` is the user's own.
        resolvers: The caller's resolvers, by their schemes; ``None`` removes one of anyshell's two.
    """

    def __init__(
        self,
        backend: Backend,
        info: HostInfo,
        shell: ShellInfo,
        *,
        directory: str,
        store: ArtifactStore | None,
        resolvers: Mapping[str, Resolver | None],
    ) -> None:
        self._backend = backend
        self._info = info
        self._shell = shell
        self._rules: ModuleType = ntpath if info.os == "windows" else posixpath
        self._directory = directory
        self._store = store
        self._given = resolvers
        # One token for every command of the environment: a text that is approved for always is the same the next time.
        self._token = os.urandom(8).hex()
        self._users: Counter[str] = Counter()
        self._changing = asyncio.Lock()

    @cached_property
    def _resolvers(self) -> dict[str, Resolver]:
        from ..output import ArtifactStore  # here: few commands have addresses
        from ..resolve import Root

        own: dict[str, Resolver] = {
            "artifact": _Kept(self._store or ArtifactStore()),
            "workspace": Root(path=self._directory, on_host=True, creates="file"),
        }
        given: dict[str, Resolver | None] = {**own, **self._given}
        return {scheme: resolver for scheme, resolver in given.items() if resolver is not None}

    @property
    def read_kept(self) -> bool:
        """Whether a command can read a kept output by its address."""
        return "artifact" not in self._given

    async def expand(
        self, command: Command, *, lasting: bool = False, workspace: str | None = None
    ) -> Command:
        """Replace the addresses in a command by paths, unless it was expanded before. Changes nothing on any host.

        Args:
            command: The requested command.
            lasting: Whether the command goes on when this process ends: then no copy can be made for it.
            workspace: The target of ``workspace://`` instead of the directory of the environment; absolute.

        Raises:
            InvalidCommand: The target of an address of a known scheme does not exist, or the address leads out of its
                directory.
            BackendError: The resolving took too long.
        """
        text, env = command.text, command.env
        if isinstance(text, Expanded) or not (
            "://" in text
            or "://" in (command.cwd or "")
            or (env and any("://" in each for each in env.values()))
        ):
            return command
        from ..resolve import find

        powershell = isinstance(shells.SHELLS[self._shell.kind], shells.PowerShell)
        words = [
            word
            for word in find(command.text, self._resolvers, powershell=powershell)
            if _is_address(word.address)
        ]
        given = {name: value for name, value in command.env.items() if self._scheme(value)}
        cwd = command.cwd if command.cwd is not None and self._scheme(command.cwd) else None
        if not (words or given or cwd):
            return command
        if len(words) + len(given) > MOST_ADDRESSES:
            raise InvalidCommand(
                f"a command has up to {MOST_ADDRESSES} internal addresses, not {len(words) + len(given)}"
            )
        # An address that occurs twice is resolved once, so both words get the same path.
        named = {word.address: word.address for word in words}
        named |= {value: f"env {name}" for name, value in given.items()} | ({cwd: "cwd"} if cwd else {})
        places: dict[str, _Place] = {}
        with anyio.move_on_after(RESOLVING_SECONDS):
            for address, name in named.items():
                places[address] = await self._resolve(
                    address, cut_name(name), lasting=lasting, workspace=workspace
                )
        if len(places) < len(named):
            raise BackendError(f"the addresses of the command were not resolved in {RESOLVING_SECONDS:g} s")
        text, at = "", 0
        for word in words:
            path = shells.SHELLS[self._shell.kind].quote(self._in_shell(places[word.address].path))
            text += command.text[at : word.start] + ("& " if word.command else "") + path
            at = word.end
        env = {name: self._in_shell(places[value].path) for name, value in given.items()}
        return replace(
            command,
            text=Expanded(text + command.text[at:], places.values()),
            env={**command.env, **env},
            cwd=places[cwd].path if cwd else command.cwd,
        )

    def placed(self, text: str) -> AbstractAsyncContextManager[None]:
        """Put the files of an expanded text in place, and remove them at the end of the context.

        Raises:
            InvalidCommand: A file cannot be put in place.
            BackendError: The placing took too long.
        """
        places = text.places if isinstance(text, Expanded) else ()
        return self._placed(places) if places else contextlib.nullcontext()

    @contextlib.asynccontextmanager
    async def _placed(self, places: Iterable[_Place]) -> AsyncIterator[None]:
        held, taken = contextlib.ExitStack(), list[str]()
        try:
            with anyio.move_on_after(PLACING_SECONDS) as bound:
                for place in places:
                    try:
                        await self._put(place, held, taken)
                    except AnyshellError:
                        raise
                    except Exception as error:  # the caller's resolver may raise anything
                        raise InvalidCommand(
                            f"the file of an address cannot be put in place: {error}"
                        ) from error
            if bound.cancelled_caught:
                raise BackendError(
                    f"the files of the command's addresses were not in place in {PLACING_SECONDS:g} s"
                )
            yield
        finally:
            await to_the_end(self._take_away(held, taken), lambda: None)

    def _scheme(self, value: str) -> bool:
        return value.partition("://")[0] in self._resolvers and "://" in value

    async def _resolve(self, address: str, name: str, *, lasting: bool, workspace: str | None) -> _Place:
        scheme, _, rest = address.partition("://")
        try:
            resolved = await self._resolvers[scheme].resolve(rest)
            if scheme == "workspace" and workspace is not None:
                resolved = replace(resolved, root=workspace)
            place = await self._looked_at(address, resolved)
        except BackendError:
            raise
        except Exception as error:  # the caller's resolver may raise anything
            raise InvalidCommand(f"{name}: {error}") from error
        if lasting and place.copied:
            raise InvalidCommand(f"{name}: a detached job outlives the copy that it would be given")
        return place

    async def _looked_at(self, address: str, resolved: Resolved) -> _Place:
        """Find the path of an address, and check whether the path exists."""
        near = resolved.on_host or self._info.is_this_machine
        if resolved.content is not None:
            return _Place(self._target(address, resolved.path), resolved, copied=True)
        if resolved.creates != "nothing" and not near:
            raise InvalidCommand("it is written on this machine, which a command on another host cannot do")
        files, rules = (self._backend.files, self._rules) if near else (here(), os.path)
        if not rules.isabs(resolved.root or resolved.path):
            raise InvalidCommand("its resolver has not given an absolute path")
        path, missing = resolved.path, 0
        if resolved.root is not None:
            from ..resolve import contained

            path, missing = await contained(files, rules, resolved.root, path)
        else:
            for each in (path, rules.dirname(path)):
                with contextlib.suppress(FileNotFoundError):
                    await files.stat(each)
                    break
                missing += 1
        if missing > _CREATES[resolved.creates]:
            where = rules.dirname(path) if missing > 1 else path
            raise InvalidCommand(f"{where} does not exist")
        if not near:
            return _Place(self._target(address, path), resolved, copied=True, source=path)
        makes = missing and resolved.creates == "directories"
        return _Place(path, resolved, parent=rules.dirname(path) if makes else "")

    @property
    def _private(self) -> str:
        """The directory for copies, which exists as long as a command uses a copy."""
        if self._info.is_this_machine:
            import tempfile  # imported here: its import loads many modules

            parent = tempfile.gettempdir()
        elif self._info.os == "windows":
            parent = ntpath.join(self._info.home, "AppData", "Local", "Temp")
        else:
            parent = "/tmp"  # noqa: S108 - what is made there is new, and its owner's alone
        return str(self._rules.join(parent, f"anyshell-{self._token}"))

    def _target(self, address: str, source: str) -> str:
        name = re.sub(r"[^\w.@+-]", "_", re.split(r"[/\\]", source.rstrip("/\\"))[-1], flags=re.ASCII)
        import hashlib

        digest = hashlib.sha256(address.encode(errors="surrogateescape")).hexdigest()[:8]
        return str(self._rules.join(self._private, f"{digest}-{name[-_LONGEST_NAME:]}"))

    def _in_shell(self, path: str) -> str:
        """Return a path in the form for programs of the shell."""
        if self._info.os != "windows" or isinstance(shells.SHELLS[self._shell.kind], shells.PowerShell):
            return path
        path = path.replace("\\", "/")
        return (
            re.sub(r"\A([A-Za-z]):", lambda drive: f"/mnt/{drive[1].lower()}", path)
            if self._shell.kind == "wsl"
            else path
        )

    async def _put(self, place: _Place, held: contextlib.ExitStack, taken: list[str]) -> None:
        if place.resolved.hold is not None:
            await in_a_worker(partial(_enter, held, place.resolved))
        if place.parent:
            await self._backend.files.mkdir(place.parent, parents=True, exist_ok=True)
        if not place.copied:
            return
        async with self._changing:
            if not self._users[place.path]:
                try:
                    await self._copied(place)
                except BaseException:
                    await to_the_end(self._removed(place.path), lambda: None)
                    raise
            self._users[place.path] += 1
            taken.append(place.path)

    async def _copied(self, place: _Place) -> None:
        if not self._users.total():
            await self._backend.files.mkdir(self._rules.dirname(self._private), parents=True, exist_ok=True)
            await self._backend.files.mkdir(self._private)  # an error if it exists: then it is another user's
            await self._backend.files.chmod(self._private, 0o700)
        content = place.resolved.content
        if content is None:
            from .._transfer import Place, copy  # imported here: few commands need it

            near = Place(here(), os.path, place.source)
            await copy(near, Place(self._backend.files, self._rules, place.path), None)
            return
        pieces = [content] if isinstance(content, bytes) else content()
        async with contextlib.aclosing(_in_workers(pieces)) as chunks:
            await self._backend.files.write_chunks(place.path, chunks, mode=0o600)

    async def _removed(self, path: str) -> None:
        """Remove a copy that no command uses, and the directory with the last copy."""
        with anyio.move_on_after(CLEANING_SECONDS), contextlib.suppress(OSError, AnyshellError):
            await self._backend.files.remove(path if self._users.total() else self._private, recursive=True)

    async def _take_away(self, held: contextlib.ExitStack, taken: list[str]) -> None:
        async with self._changing:
            for path in taken:
                self._users[path] -= 1
                if not self._users[path]:
                    del self._users[path]
                    await self._removed(path)
        try:
            await in_a_worker(held.close)
        except Exception as error:  # noqa: BLE001 - the caller's; the command has run, and its outcome is not lost for it
            said = {"message": "a resolver's hold failed when its command had ended", "exception": error}
            asyncio.get_running_loop().call_exception_handler(said)


class _Kept:
    """The resolver of ``artifact://``."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    async def resolve(self, name: str) -> Resolved:
        """Find a kept output, and check whether the requested part exists."""
        from .._types import Resolved
        from ..output.selection import ArtifactAddress

        address = ArtifactAddress.parse(name)
        if not address.selection.query:
            path = await in_a_worker(partial(self._store.path, address.id))
            return Resolved(path=str(path), hold=partial(self._store.open, address.id))
        await in_a_worker(partial(self._look, address))
        return Resolved(path=f"{address.id}.txt", content=partial(self._part, address))

    def _look(self, address: ArtifactAddress) -> None:
        from ..output.selection import PartReading

        with self._store.open(address.id) as file:
            PartReading(file, address, limit=None)

    def _part(self, address: ArtifactAddress) -> Iterator[bytes]:
        from ..output.selection import PartReading

        with self._store.open(address.id) as file:
            reading = PartReading(file, address, limit=None)
            yield from reading.pieces()
            if reading.next is not None:
                yield f"[anyshell: {reading.note}]\n".encode()


def _is_address(address: str) -> bool:
    """Return whether a word is an address, and not a sentence that begins with the id of a kept output."""
    return not address.startswith("artifact://") or not re.search(r"\s", address.partition("?")[0])


def _enter(held: contextlib.ExitStack, resolved: Resolved) -> None:
    assert resolved.hold is not None
    held.enter_context(resolved.hold())


async def _in_workers(pieces: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Iterate over a blocking iterable in worker threads, piece by piece."""
    waiting = iter(pieces)
    while (piece := await in_a_worker(partial(next, waiting, None))) is not None:
        memoryview(piece)  # raises TypeError if the piece is not bytes
        yield piece
