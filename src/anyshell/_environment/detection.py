"""The detection of a host's facts and its shell, before any command runs there."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from .. import shells
from .._exceptions import InvalidCommand
from .._runner import Runner
from .._runner.directories import check_directory
from .._runner.variables import ASK_FOR_UTF8, settings_of, unset_of
from .._types import cut_name
from .._waits import AsyncOnly, require_asyncio, to_the_end
from ..backends import connect, is_address
from ..reach import NONE
from . import descriptions
from .confining import sandbox_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator
    from types import TracebackType
    from typing import NoReturn, Self

    from ..abc import Backend
    from ..backends import SSHOptions
    from .options import EnvironmentOptions
    from .snapshot import SnapshotFile


class Closable(Protocol):
    """An object that is closed when its ``async with`` block is left."""

    async def aclose(self) -> None:
        """Stop the object's processes, and close its connections."""


Made = TypeVar("Made", bound=Closable)


class Detected(NamedTuple):
    """The result of a detection, from which an environment is made.

    Attributes:
        runner: The runner of commands on the host.
        options: The requested options.
        owns_backend: Whether the connection to the host ends with the environment.
        snapshot_notices: Notices for a person about the user's own set-up, one sentence each.
    """

    runner: Runner
    options: EnvironmentOptions
    owns_backend: bool
    snapshot_notices: tuple[str, ...] = ()


class Detection(AsyncOnly, Generic[Made]):
    """A detection that has not begun: await it, or enter it with ``async with``.

    Args:
        target: The backend of the host, or the host's address; ``None`` is this machine.
        options: The requested options.
        make: A callback that makes the environment from the result.
    """

    def __init__(
        self,
        target: str | SSHOptions | Backend | None,
        options: EnvironmentOptions,
        make: Callable[[Detected], Made],
    ) -> None:
        self._owned = is_address(target)
        if not self._owned and not callable(getattr(target, "info", None)):
            raise InvalidCommand(
                f"a host is None, an address such as 'ssh://user@host', SSHOptions or a backend, not {type(target).__name__}"
            )
        self._target = target
        self._options = options
        self._make = make
        self._made: Made | None = None

    def brief(self) -> Self:
        """Ask the host only for the facts that a command needs, unless an option needs more."""
        self._options = replace(self._options, brief=True)
        return self

    def __await__(self) -> Generator[object, object, Made]:
        return self._detect(entered=False).__await__()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"the environment is not detected yet, and so has no {name!r}: use 'async with Environment.detect() as env', "
            "'env = await Environment.detect()', or without an event loop 'env = anyshell.connect()'"
        )

    async def __aenter__(self) -> Made:
        self._made = await self._detect(entered=True)  # entering a detection also enters its environment
        return self._made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.aclose()

    async def _detect(self, *, entered: bool) -> Made:
        require_asyncio()
        backend = self._target
        if is_address(backend):
            backend = connect(backend, launcher=lambda login: shells.Login(login))
        try:
            return self._make(await self._ask(backend, entered=entered))
        except BaseException:
            if self._owned:
                await to_the_end(backend.aclose(), lambda: None)
            raise

    async def _ask(self, backend: Backend, *, entered: bool) -> Detected:
        options = self._options
        # A path in ANYSHELL_SHELL is on this machine, and means nothing on another host.
        elsewhere = self._owned and self._target not in (None, "local")
        wished = None if elsewhere else os.environ.get("ANYSHELL_SHELL") or None
        request = options.shell or wished
        source = "shell" if options.shell else "ANYSHELL_SHELL"
        plain = options.reach is None and options.variables is None and not options.snapshot
        brief = options.brief and plain
        known = () if brief else descriptions.programs()
        wanted = None if options.prefix is None else options.prefix.program
        programs = known if wanted is None or wanted in known else (*known, wanted)
        query = shells.query(programs, request, source=source)
        info = await backend.info(replace(query, variables=tuple(ASK_FOR_UTF8), brief=brief))
        if wanted is not None and wanted not in info.programs:
            raise InvalidCommand(
                f"prefix: {cut_name(wanted)!r} was not found on {backend.name}: install it, or give its absolute path"
            )
        if options.prefix is not None and info.os == "windows":
            options.prefix.check_words(info.programs)
        if programs is not known:
            info = replace(
                info, programs={name: path for name, path in info.programs.items() if name in known}
            )
        if info.shell is None:
            raise shells.not_found(request, info.shells_tried, source=source, os=info.os)
        directory = info.resolve(options.cwd)
        if options.cwd is not None:
            await check_directory(backend, directory)
        host_names: Collection[str] = ()
        unset = unset_of(info.shell, interactive=options.interactive)
        most = None if options.policy is None else options.policy.reach
        sandbox = await sandbox_for(options.reach, backend, info, directory, most=most)
        if options.variables is not None or sandbox is not NONE:
            from .variables import ask_names  # here and below, since few environments need it

            host_names = os.environ if info.is_this_machine else await ask_names(backend, info, info.shell)
            if options.variables is not None:
                unset |= options.variables.unset(host_names)
        snapshot: SnapshotFile | None = None
        if options.snapshot:
            from .snapshot import ensure

            snapshot = await ensure(
                backend,
                info,
                info.shell,
                settings=settings_of(info, info.shell, interactive=options.interactive),
                unset=unset,
            )
        runner = Runner(
            backend,
            info,
            info.shell,
            directory=directory,
            interactive=options.interactive,
            limits=options.limits,
            artifacts=options.artifacts,
            prefix=options.prefix,
            snapshot=None if snapshot is None else snapshot.path,
            max_jobs=options.max_jobs,
            entered=entered,
            variables=options.variables,
            host_names=host_names,
            redaction=options.redact,
            audit=options.audit,
            resolvers=options.resolvers,
            sandbox=sandbox,
        )
        return Detected(
            runner=runner,
            options=options,
            owns_backend=self._owned,
            snapshot_notices=() if snapshot is None else snapshot.notices,
        )


def offers_terminals() -> bool:
    """Whether terminals should be offered: ``ANYSHELL_NO_PTY`` of this process is not set, empty or 0."""
    return os.environ.get("ANYSHELL_NO_PTY", "") in ("", "0")
