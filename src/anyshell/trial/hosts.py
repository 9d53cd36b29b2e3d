"""The host of a trial's layer: this machine, or an SSH host that runs the text of the same modules."""

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
"""Seconds for one step of a trial on an SSH host, such as the commit; then the step is stopped there, with each file whole."""

LONGEST_ANSWER = 256 * 1024 * 1024
"""Bytes of a step's answer on an SSH host, some 200 for each file that the command wrote; with more, the trial ends with an
error."""

_QUICK = ("prepare", "look", "contents")
"""The steps on this machine that change nothing; a cancelled caller does not wait for the end of such a step."""


def end_killed_commits() -> list[tuple[str, list[str]]]:
    """End this user's killed commits on this machine; see `layer.Layer.recover`."""
    if sys.platform != "linux":
        return []
    return list(_layer().recover())


class Host:
    """The host of one layer.

    Args:
        backend: The backend that reaches the host.
        python: The path of the host's Python, which runs each step; ``None`` is this machine.
    """

    def __init__(self, backend: Backend, python: str | None) -> None:
        self._at = ("", "")
        self._far = None if python is None else Far(backend, python, ("files", "commit", "layer"))
        if python is None:
            self._layer = _layer()

    async def ask(self, step: str, *words: object) -> Any:
        """Take a step, a method of `layer.Layer`; return the step's answer.

        Raises:
            CommitConflict: Another program has changed a file.
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
    # An import at run time, since mypy does not see this module's content for systems other than Linux.
    return import_module(".layer", __package__).Layer(state)


class Far:
    """A remote SSH host whose Python takes each step.

    Args:
        backend: The backend that reaches the host.
        python: The path of the host's Python.
        names: The modules of this package whose texts the host's Python runs.
    """

    def __init__(self, backend: Backend, python: str, names: tuple[str, ...]) -> None:
        self._backend, self._python = backend, python
        self._text = "\n".join(text_of(f"{name}.py", __package__) for name in names)

    async def ask(self, *words: object) -> Any:
        """Take a step on the host; return the answer. Raises the errors of `Host.ask`."""
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
