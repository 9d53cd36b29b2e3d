"""Where the layer of a trial is: on this machine, or on a host that SSH reaches, which runs the same text."""

from __future__ import annotations

import binascii
import json
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .. import _private
from .._exceptions import AnyshellError, CommitConflict
from .._types import Spawn, one_line
from .._waits import in_a_worker
from ..backends.collect import collect
from ..reach.host import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..abc import Backend

STEP_SECONDS = 600.0
"""Seconds for one step of a trial on a host that SSH reaches, such as the commit; then it is stopped there, with each file whole."""

LONGEST_ANSWER = 256 * 1024 * 1024
"""Bytes that such a step may answer, some 200 for each file that the command wrote; with more the trial ends with an error."""

Record = tuple[str, int, int, int, int, int, int]
"""As a look of `effects` has it."""

Read = tuple[list[tuple[str, Record]], list[tuple[str, Record]], list[str], list[str]]


class Here:
    """A layer on this machine."""

    def __init__(self) -> None:
        # mypy sees nothing of it for other systems.
        self._layers: Any = import_module(".layer", __package__)
        self._layer: Any = None

    async def prepare(self, paths: Sequence[str]) -> tuple[list[str], str, list[str]]:
        """As `layer.prepare` says, and the other methods as those of `layer.Layer`."""
        try:
            state = str(_private.state_directory("trials").parent)
        except OSError:
            state = ""
        real, mount, tops = await self._ask(partial(self._layers.prepare, paths, state))
        return real, mount, tops

    async def make(self, place: str, root: str) -> tuple[str, str]:
        """Make the layer; return the two directories that an overlay needs."""

        def make() -> None:  # a cancellation comes between a call in a worker and its answer
            self._layer = self._layers.Layer.make(place, root)

        await in_a_worker(make)
        return self._layer.upper, self._layer.work

    async def look(self, most: int, seconds: float) -> int:
        """See `prepare`."""
        return int(await self._ask(partial(self._layer.look, most, seconds)))

    async def read(self, seconds: float) -> Read:
        """See `prepare`."""
        return await in_a_worker(partial(self._layer.read, seconds))

    async def contents(self, paths: Sequence[str], *, above: bool) -> dict[str, bytes]:
        """See `prepare`."""
        return dict(await self._ask(partial(self._layer.contents, paths, above)))

    async def commit(self) -> None:
        """See `prepare`.

        Raises:
            CommitConflict: Another program has changed something.
        """
        try:
            await in_a_worker(self._layer.commit)
        except self._layers.Conflict as conflict:
            raise CommitConflict(list(conflict.args)) from None

    async def close(self) -> None:
        """See `prepare`. A second time, nothing is done."""
        layer, self._layer = self._layer, None
        if layer is not None:
            await in_a_worker(layer.close)

    async def _ask(self, call: partial[Any]) -> Any:
        return await in_a_worker(call, abandon_on_cancel=True)


class There:
    """A layer on a host that SSH reaches, whose Python takes each step."""

    def __init__(self, backend: Backend, python: str) -> None:
        self._backend, self._python = backend, python
        self._top, self._root = "", ""

    async def prepare(self, paths: Sequence[str]) -> tuple[list[str], str, list[str]]:
        """As for `Here`, and so are the others."""
        real, mount, tops = await self._ask("prepare", paths)
        return real, mount, tops

    async def make(self, place: str, root: str) -> tuple[str, str]:
        """See `prepare`."""
        self._root = root
        self._top = await self._ask("make", place)
        return f"{self._top}/upper", f"{self._top}/work"

    async def look(self, most: int, seconds: float) -> int:
        """See `prepare`."""
        return int(await self._ask("look", most, seconds))

    async def read(self, seconds: float) -> Read:
        """See `prepare`."""
        then, now, linked, unseen = await self._ask("read", seconds)
        some, others = ([(path, tuple(facts)) for path, facts in found] for found in (then, now))
        return some, others, linked, unseen

    async def contents(self, paths: Sequence[str], *, above: bool) -> dict[str, bytes]:
        """See `prepare`."""
        found = await self._ask("contents", paths, above) if paths else {}
        return {path: binascii.a2b_base64(content) for path, content in found.items()}

    async def commit(self) -> None:
        """See `prepare`."""
        await self._ask("commit")

    async def close(self) -> None:
        """See `prepare`."""
        if self._top:
            await self._ask("close")
            self._top = ""

    async def _ask(self, verb: str, *words: object) -> Any:
        """Have the host take a step.

        Raises:
            CommitConflict, OSError: The step has.
            AnyshellError: There is no answer.
        """
        texts = [text_of(f"{name}.py", __package__) for name in ("files", "commit", "layer")]
        argv = (self._python, "-I", "-S", "-c", "\n".join(texts))
        asked = Spawn(argv=argv, cwd="/", stdin=True, split_stderr=True)
        request = json.dumps([self._top, self._root, verb, words]).encode()
        try:
            _, out, err = await collect(
                self._backend, asked, seconds=STEP_SECONDS, most=LONGEST_ANSWER, stdin=request
            )
            failed, found = json.loads(out)
        except TimeoutError:
            raise AnyshellError(f"a trial on the host: {verb} took longer than {STEP_SECONDS:g} s") from None
        except ValueError:
            last = one_line(err.decode(errors="replace").strip().rpartition("\n")[2])
            raise AnyshellError(
                f"a trial on the host: {verb} was not answered ({last or 'nothing was said'})"
            ) from None
        if failed == "conflict":
            raise CommitConflict(found)
        if failed:
            raise OSError(*found)
        return found
