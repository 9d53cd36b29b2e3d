"""The host of a trial's layer: this machine, or one that SSH reaches, which runs the same text."""

from __future__ import annotations

import json
import posixpath
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .. import _private
from .._exceptions import AnyshellError, CommitConflict
from .._types import Spawn, one_line
from .._waits import in_a_worker
from ..backends.collect import collect
from ..reach.host import text_of
from .files import Conflict

if TYPE_CHECKING:
    from ..abc import Backend

STEP_SECONDS = 600.0
"""Seconds for one step of a trial on a host that SSH reaches, such as the commit; then it is stopped there, with each file whole."""

LONGEST_ANSWER = 256 * 1024 * 1024
"""Bytes that such a step may answer, some 200 for each file that the command wrote; with more the trial ends with an error."""

_QUICK = ("prepare", "look", "contents")
"""The steps on this machine that change nothing, so that no caller who is cancelled waits for their end."""


def end_killed_commits() -> list[tuple[str, list[str]]]:
    """End the commits of this user on this machine that were killed; see `layer.Layer.recover`."""
    if sys.platform != "linux":
        return []
    return list(_layer().recover())


class Host:
    """The host of one layer.

    Args:
        backend: Reaches it.
        python: Its Python, which takes each step; ``None`` is this machine.
    """

    def __init__(self, backend: Backend, python: str | None) -> None:
        self._at = ("", "")
        self._far = None if python is None else Far(backend, python, ("files", "commit", "layer"))
        if python is None:
            self._layer = _layer()

    async def ask(self, step: str, *words: object) -> Any:
        """Take a step, see `layer.Layer`; return its answer.

        Raises:
            CommitConflict: Another program has changed something.
            OSError: The step has failed.
            AnyshellError: The host does not answer.
        """
        if self._far is not None:
            found = await self._far.ask(*self._at, step, words)
            if step == "make":
                self._at = (posixpath.dirname(found[0]), str(words[1]))
            return found
        try:
            call = partial(getattr(self._layer, step), *words)
            return await in_a_worker(call, abandon_on_cancel=step in _QUICK)
        except Conflict as conflict:
            raise CommitConflict(list(conflict.args)) from None


def _layer() -> Any:
    try:
        state = str(_private.state_directory("trials").parent)
    except OSError:
        state = ""
    # mypy sees nothing of it for other systems.
    return import_module(".layer", __package__).Layer(state)


class Far:
    """A host that SSH reaches, whose Python takes each step.

    Args:
        backend: Reaches it.
        python: Its Python.
        names: Our modules whose texts it runs.
    """

    def __init__(self, backend: Backend, python: str, names: tuple[str, ...]) -> None:
        self._backend, self._python = backend, python
        self._text = "\n".join(text_of(f"{name}.py", __package__) for name in names)

    async def ask(self, *words: object) -> Any:
        """Have it take a step; return the answer. It raises what `Host.ask` does."""
        asked = Spawn(
            argv=("/usr/bin/env", self._python, "-I", "-S", "-c", self._text),
            cwd="/",
            stdin=True,
            split_stderr=True,
        )
        request = json.dumps(words, ensure_ascii=False).encode("utf-8", "surrogateescape")
        try:
            _, out, err = await collect(
                self._backend, asked, seconds=STEP_SECONDS, most=LONGEST_ANSWER, stdin=request
            )
            failed, found = json.loads(out.decode("utf-8", "surrogateescape"))
        except TimeoutError:
            raise AnyshellError(f"the host's Python took longer than {STEP_SECONDS:g} s for a step") from None
        except ValueError:
            said = one_line(err.decode(errors="replace").strip().rpartition("\n")[2]) or "nothing was said"
            raise AnyshellError(
                f"the host's Python, {self._python}, of 3.6 or later, did not answer ({said})"
            ) from None
        if failed == "conflict":
            raise CommitConflict(found)
        if failed:
            raise OSError(*found)
        return found
