"""The blocking twins of the asynchronous classes: the same names, run in the loop of the blocking front."""

from __future__ import annotations

import functools
import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from ._environment import Environment
from ._exceptions import AnyshellError
from ._sync import front

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterator
    from typing import Self

TWINS = {
    "DetachedJob": "detached",
    "DetachedJobs": "detached",
    "DrivenTerminal": "terminal",
    "Environment": "_environment",
    "Fleet": "fleet",
    "FleetRun": "fleet",
    "HostFiles": "_files",
    "Job": "jobs",
    "JobTool": "tool",
    "Jobs": "jobs",
    "Session": "session",
    "ShellTool": "tool",
    "Stream": "_stream",
    "Trial": "trial",
}
"""The classes that have a blocking twin, and their modules."""

_CALLBACKS = frozenset(("approver", "listener", "on_update", "secrets", "source"))
"""The arguments that are functions and may block in the twins: each call runs in a thread of its own."""

_MADE = frozenset(("DetachedJobs", "Fleet", "ShellTool"))
"""The classes that a program instantiates itself; an environment returns the others."""

_OVER = object()


class Twin:
    """The base of all twins. A twin holds the asynchronous object of the loop."""

    __slots__ = ("_loop", "_target")

    _target: Any
    _loop: AbstractEventLoop

    def __init__(self) -> None:
        raise TypeError(
            f"{type(self).__name__} is not constructed directly: anyshell.connect() gives an environment, which makes one"
        )

    @classmethod
    def _of(cls, target: Any, loop: AbstractEventLoop) -> Self:
        made = cls.__new__(cls)
        made._target, made._loop = target, loop
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._call(lambda: getattr(self._target, name))

    def __repr__(self) -> str:
        return f"<blocking {self._target!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Twin) and self._target is other._target

    def __hash__(self) -> int:
        return hash(self._target)

    def _call(self, make: Callable[[], Any]) -> Any:
        """Call a function in the loop, await its result if possible, and return the twin of the result."""

        async def called() -> Any:
            result = make()
            return await result if inspect.iscoroutine(result) else result

        try:
            return twin_of(front.call(called, self._loop), self._loop)
        except AnyshellError as error:  # whose message names the syntax of coroutines
            error.args = tuple(
                each.replace("'async ", "'") if isinstance(each, str) else each for each in error.args
            )
            raise


def twin_of(value: Any, loop: AbstractEventLoop) -> Any:
    """Return the twin of a value that has one; for a list or a tuple, a list or tuple of twins."""
    kind: Any = type(value)
    if kind.__name__ in TWINS and kind.__module__.startswith("anyshell."):
        return twin(kind)._of(value, loop)
    if kind in (list, tuple):
        return kind(twin_of(each, loop) for each in value)
    return value


def named(name: str) -> type[Twin]:
    """Return the blocking twin of a class, given the name of the class."""
    return twin(getattr(import_module(f"anyshell.{TWINS[name]}"), name))


@functools.cache
def twin(kind: Any) -> type[Twin]:
    """Return the blocking twin of a class."""
    members: dict[str, Any] = {"__slots__": (), "__doc__": kind.__doc__, "__module__": "anyshell.blocking"}
    names = [name for name in dir(kind) if not name.startswith("_")]
    for name in names:
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property):
            members[name] = property(functools.partial(_read, name), doc=member.__doc__)
        elif inspect.isfunction(member):
            members["close" if name == "aclose" else name] = _calling(member)
    if "__call__" in vars(kind):
        members["__call__"] = members["call"]
    if hasattr(kind, "__aenter__"):
        members.update(__enter__=_calling(kind.__aenter__), __exit__=_calling(kind.__aexit__))
    elif "close" in members:
        members.update(__enter__=lambda self: self, __exit__=_exit)
    if hasattr(kind, "__aiter__"):
        members["__iter__"] = _iterate if kind.__name__ != "Stream" else _iterate_events
    if kind.__name__ in _MADE:
        members["__init__"] = _making(kind)
    if kind.__name__ == "Environment":
        members.update(close=_close, detect=staticmethod(connect))
    return type(kind.__name__, (Twin,), members)


@functools.wraps(Environment.detect)
def connect(*args: Any, **kwargs: Any) -> Any:
    loop = front.started()

    async def enter() -> Environment:
        environment = await Environment.detect(*args, **kwargs).__aenter__()
        front.open.add(environment)
        return environment

    return twin_of(front.call(enter, loop), loop)


connect.__doc__ = """Connect to a host and find its shell, blocking.

``with anyshell.connect("ssh://build@ci-7") as env:``, then ``env.run("make")``. Every argument is that of
`Environment.detect`, and so is what is raised. The environment owns what it starts, and is closed by `close`, by the end of
the ``with``, or with the interpreter.
"""


@functools.wraps(Environment.aclose)
def _close(self: Twin) -> None:
    front.open.discard(self._target)
    self._call(self._target.aclose)


def _making(kind: Any) -> Callable[..., None]:
    @functools.wraps(kind.__init__)
    def make(self: Twin, *args: Any, **kwargs: Any) -> None:
        loop = self._loop = front.started()
        given = {name: _argument(name, each, loop) for name, each in kwargs.items()}
        if any(isinstance(each, Environment) for each in (*args, *kwargs.values())):
            raise AnyshellError(
                f"a blocking {kind.__name__} takes the environment that anyshell.connect() gives, not one of Environment.detect()"
            )

        async def begin() -> Any:
            return kind(*map(_unwrapped, args), **given)

        self._target = front.call(begin, loop)

    return make


def _exit(self: Any, *_: object) -> None:
    self.close()


def _read(name: str, self: Twin) -> Any:
    return self._call(lambda: getattr(self._target, name))


def _calling(function: Callable[..., Any]) -> Callable[..., Any]:
    first = next(iter(inspect.signature(function).parameters.values()), None)
    assert first is not None, "a method has its object"
    names = list(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def call(self: Twin, *args: Any, **kwargs: Any) -> Any:
        given = [_argument(name, each, self._loop) for name, each in zip(names, args, strict=False)]
        given += map(_unwrapped, args[len(names) :])
        named = {name: _argument(name, each, self._loop) for name, each in kwargs.items()}
        return self._call(lambda: function(self._target, *given, **named))

    return call


def _unwrapped(value: Any) -> Any:
    return value._target if isinstance(value, Twin) else value


def _argument(name: str, value: Any, loop: AbstractEventLoop) -> Any:
    """Convert an argument for the loop. Each call of a function that may block runs in a thread."""
    value = _unwrapped(value)
    if name not in _CALLBACKS or not callable(value) or inspect.iscoroutinefunction(value):
        return value

    @functools.wraps(value)
    async def in_thread(*args: Any) -> Any:
        told = [twin_of(each, loop) for each in args]
        result = await anyio.to_thread.run_sync(value, *told, abandon_on_cancel=True)
        return await result if inspect.isawaitable(result) else result

    return in_thread


def _iterate_events(self: Twin) -> Iterator[Any]:
    # All events of a piece at once: a step takes ten times as long as an event.
    for events in _iterate(self, self._target._events):
        yield from events


def _iterate(self: Twin, made: Callable[[], Any] | None = None) -> Iterator[Any]:
    items = self._call(made or (lambda: aiter(self._target)))
    items = _unwrapped(items)

    async def step() -> Any:
        return await anext(items, _OVER)

    while (item := self._call(step)) is not _OVER:
        yield item
