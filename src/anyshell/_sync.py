"""The blocking front: one event loop in one thread, behind `anyshell.run`.

The front is not a second implementation: a blocking call awaits the same `Runner.run` in that loop as `Environment.run` does.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import functools
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ._environment import Environment
from ._exceptions import AnyshellError, InvalidCommand
from ._runner import RunOptions, to_command
from ._types import DEFAULT_GRACE, to_recording, to_scan
from ._waits import shielded

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from ._runner.redirects import Stdin, Stdout
    from ._types import Command, LeftBehind, Outcome, OutputLimits, Recording, Scan, Spawn
    from ._types.checks import Seconds
    from .reach import Facts, Reach
    from .shells.words import CommandLike

P = ParamSpec("P")
T = TypeVar("T")

_READ = "the outcome has it anyway, as .output.text for reading and .output.data with every byte"
_OF_SUBPROCESS = {
    "capture_output": _READ,
    "check": "call .check() on the outcome",
    "encoding": _READ,
    "host": "on a host, use 'with anyshell.connect(host) as env', then env.run(...)",
    "input": "give it as stdin=",
    "stderr": "split_stderr=True keeps it apart; otherwise the output has both",
    "text": _READ,
    "universal_newlines": _READ,
}
"""Arguments of `subprocess.run` and similar functions that `run` does not take, each with the replacement."""

_EXIT_SECONDS = 5.0
"""Seconds for which the end of the interpreter waits until the commands of `anyshell.run` are stopped."""

_EXIT_PAUSE = 0.001
"""Seconds between two looks, at the end of the interpreter, whether the commands are stopped."""

_INTERRUPT_SECONDS = 0.5
"""Seconds between two looks of the main thread for an interrupt that did not end its wait for a call; there is no last look.

Python looks for signals and then waits, in two steps: a signal between the steps, or one that another thread receives, does not
end the wait. On Windows no signal ends the wait for a lock."""


class Front:
    """A runner of coroutines for blocking threads. Its thread starts with the first call and ends with `close`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may call within a call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed: asyncio.Future[None] | None = None
        self._ending: asyncio.AbstractEventLoop | None = None
        self._leaving: list[Coroutine[object, object, None]] = []
        self._environments: dict[tuple[str | None, bool], asyncio.Task[Environment]] = {}
        self._facts: Facts | None = None
        self.open: set[Environment] = set()
        """The open environments of `anyshell.connect`; each is closed at the end of the interpreter at the latest."""

    def call(
        self,
        make: Callable[[], Coroutine[object, object, T]],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> T:
        """Run a coroutine to its end and return its result.

        Args:
            make: Makes the coroutine, in the loop.
            loop: The loop that the coroutine belongs to; ``None`` is the present loop.

        An interrupt (Ctrl-C) cancels the coroutine, waits until its cleanup is done, and is then raised. A second interrupt
        speeds up the cleanup; if it comes within microseconds of the first, it may be raised before the cleanup is done.
        """
        now = self.started()
        if loop is not None and loop is not now:
            raise AnyshellError(
                "this was connected in another process, before a fork: call anyshell.connect() in this one"
            )
        loop = now
        # A plain lock, and no future: an interrupt within the methods of a future can leave its condition locked, and the loop,
        # which sets the result, would then wait for good. A signal handler may call this function, too.
        over = threading.Lock()
        over.acquire()
        task: asyncio.Task[T] | None = None
        done: asyncio.Task[T] | None = None
        cancels = told = 0
        seconds = _INTERRUPT_SECONDS if threading.current_thread() is threading.main_thread() else -1

        def keep(ended: asyncio.Task[T]) -> None:
            nonlocal done
            if loop is not self._ending:
                done = ended
                over.release()

        def tell() -> None:
            """Start the task, unless it runs, and cancel the task once for every interrupt of this call."""
            nonlocal task, told
            if task is None:
                task = loop.create_task(make())
                task.add_done_callback(keep)
            while told < cancels:
                told += 1
                task.cancel()

        def wait() -> BaseException | None:
            """Wait for the end of the task, and return the last interrupt."""
            nonlocal cancels
            interrupt: BaseException | None = None
            while done is None:
                try:
                    # Also at the first time: an interrupt at this point must neither lose the task nor let the task run on.
                    loop.call_soon_threadsafe(tell)
                    while done is None:
                        over.acquire(timeout=seconds)
                except BaseException as error:  # noqa: BLE001 - it is raised below; KeyboardInterrupt is the point
                    interrupt = error
                    cancels += 1
                    if loop.is_closed():
                        break
            return interrupt

        # A second interrupt may come in the handler above. A function of its own, since CPython (seen with 3.12 and 3.13) also looks
        # for signals at the jump behind a handler, which no `try` in the same function covers.
        try:
            interrupt = wait()
        except BaseException:
            cancels += 1
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell)
            raise
        if interrupt is not None:
            raise interrupt
        assert done is not None
        if done.cancelled():
            raise concurrent.futures.CancelledError
        return done.result()

    async def environment(self, shell: str | None, *, interactive: bool) -> Environment:
        """Return this machine's environment with a shell, detected once. For coroutines that `call` runs."""
        key = (shell or os.environ.get("ANYSHELL_SHELL"), interactive)
        task = self._environments.get(key)
        if task is None:
            task = self._environments[key] = asyncio.ensure_future(
                _detect(shell=key[0], interactive=interactive)
            )
        try:
            return await shielded(task)
        except BaseException:
            if task.done() and (task.cancelled() or task.exception() is not None):
                self._environments.pop(key, None)  # a failure is raised, not kept: its cause may be removed
            raise

    async def confined(
        self, environment: Environment, command: Command, options: RunOptions, directory: str
    ) -> Spawn:
        """Return the spawn of a command within its sandbox. This machine is asked for its facts only once.

        Args:
            environment: An environment without a reach.
            command: A command with an absolute directory.
            options: The options with the reach.
            directory: The directory to which the paths of the reach are relative.

        Raises:
            InvalidCommand: The directory of the command is outside the reach.
            ReachUnavailable: This machine cannot enforce the reach.
        """
        from ._environment.confining import facts_of, sandbox_for  # imported here: few commands have a reach

        runner = environment.runner
        self._facts = self._facts or await facts_of(runner.backend, here=True)
        sandbox = await sandbox_for(options.reach, runner.backend, runner.info, directory, facts=self._facts)
        return sandbox.wrap(runner.spawn_of(command, options, confined=False))

    def close(self) -> None:
        """Stop every running command, and the thread, at the end of the interpreter.

        At that time only daemon threads can still wait here. These threads are not woken: a thread that continued (with a
        traceback, for example) during the interpreter's teardown would hold the interpreter's locks, and abort the process.
        """
        with self._lock:
            self._ending, closed = self._loop, self._closed
            self._loop = self._thread = self._closed = None
            self._environments = {}
            self._leaving += [environment.aclose() for environment in self.open]
            self.open = set()
        if closed is None:
            return
        loop = closed.get_loop()
        loop.call_soon_threadsafe(closed.set_result, None)
        interrupt: BaseException | None = None
        give_up = time.monotonic() + _EXIT_SECONDS
        # Not Thread.join: an interrupt makes it take the thread for ended (CPython's fix of bpo-45274).
        while True:
            try:
                while time.monotonic() < give_up and not loop.is_closed():
                    time.sleep(_EXIT_PAUSE)
                break
            except BaseException as error:  # noqa: BLE001 - it is raised below: the interpreter must not end before the thread
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def forget(self) -> None:
        """Reset the front in a forked child, which has neither the thread nor a usable loop."""
        self._lock = threading.RLock()  # a signal handler may call within a call
        self._loop = self._thread = self._closed = None
        self._environments = {}
        self.open = set()

    def started(self) -> asyncio.AbstractEventLoop:
        """Return the loop; the first call starts its thread."""
        with self._lock:
            if threading.current_thread() is self._thread:
                raise AnyshellError(
                    "a blocking call of anyshell would wait for itself here: await the same method of anyshell.Environment"
                )
            if self._loop is None:
                loop = asyncio.new_event_loop()
                closed: asyncio.Future[None] = loop.create_future()
                thread = threading.Thread(
                    target=_serve, args=(loop, closed, self._leaving), name="anyshell", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:  # out of threads, or the interpreter is ending
                    loop.close()
                    raise AnyshellError(f"blocking calls of anyshell need a thread: {error}") from error
                if self._loop is not None:  # a signal handler has called meanwhile
                    loop.call_soon_threadsafe(closed.set_result, None)
                    return self._loop
                self._loop, self._thread, self._closed = loop, thread, closed
            return self._loop


def _serve(
    loop: asyncio.AbstractEventLoop,
    closed: asyncio.Future[None],
    leaving: list[Coroutine[object, object, None]],
) -> None:
    asyncio.set_event_loop(loop)
    try:
        _run_until_done(loop, closed)
        if leaving:  # the closing stops all runs in the environments
            closing = [loop.create_task(each) for each in leaving]
            _run_until_done(loop, loop.create_task(asyncio.wait(closing, timeout=_EXIT_SECONDS / 2)))
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            _run_until_done(loop, loop.create_task(asyncio.wait(tasks, timeout=_EXIT_SECONDS / 2)))
    finally:
        loop.close()


def _run_until_done(loop: asyncio.AbstractEventLoop, future: asyncio.Future[T]) -> None:
    # An exit in the same turn of the loop loses the stop, and a stop may come late: the future alone decides.
    future.add_done_callback(lambda _: loop.stop())
    while not future.done():
        # An exit of a caller's coroutine, such as stdin=. The coroutine's task has it, and so does its call.
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


async def _detect(*, shell: str | None, interactive: bool) -> Environment:
    return await Environment.detect(shell=shell, interactive=interactive)


def _directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


front = Front()
atexit.register(front.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=front.forget)


def _helped(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap `run` so that a call in the style of `subprocess.run` raises a helpful error: Python's own gives no advice."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if len(args) > 1:
            raise TypeError("anyshell.run() takes one command: a text, or a list such as ['ls', '-l']")
        if isinstance(kwargs.get("shell"), bool):
            raise TypeError(
                "anyshell.run() takes the name of a shell as shell=, such as 'bash': a shell runs a text anyway, and "
                "interprets nothing in a list"
            )
        for name in _OF_SUBPROCESS.keys() & kwargs:
            raise TypeError(f"anyshell.run() takes no {name}=: {_OF_SUBPROCESS[name]}")
        return function(*args, **kwargs)

    return call


@_helped
def run(
    command: CommandLike,
    *,
    shell: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: Stdin | None = None,
    timeout: Seconds | None = None,
    silence: Seconds | None = None,
    grace: Seconds = DEFAULT_GRACE,
    left_behind: LeftBehind = "stop",
    split_stderr: bool = False,
    stdout: Stdout | None = None,
    interactive: bool = False,
    record: str | os.PathLike[str] | Recording | None = None,
    limits: OutputLimits | None = None,
    effects: bool | Sequence[str] | Scan = False,
    reach: Reach | None = None,
) -> Outcome:
    """Run a command on this machine in a fresh shell and wait for its end, blocking like `subprocess.run`.

    May be called from any thread, also from several threads at once; all calls share one event loop in one thread. The first
    call starts that thread; the thread ends with the interpreter, and running commands are stopped then. Inside a coroutine
    use `Environment.run`: this call blocks the loop.

    `shell`, `interactive` and `reach` are those of `Environment.detect`; every other argument is that of `Environment.run`. A
    relative `cwd` and the paths of `reach` resolve against the process's directory at the time of the call.

    Returns:
        The outcome. A non-zero exit, a timeout and a truncation are values here.

    Raises:
        InvalidCommand: Bad input, before anything was started; the message names the culprit.
        ReachUnavailable: This machine cannot enforce the reach.
        ShellNotFound: No usable shell.
        SpawnError: The shell could not be started.
        RecordingError: The file of the recording cannot be made, or exists already.
        KeyboardInterrupt: An interrupt (Ctrl-C) came; the whole tree is gone.
    """
    here = _directory()  # read now, in this thread: the loop may read the directory at another time
    path = os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd
    if here is None and (path is None or not (os.path.isabs(path) or path.startswith("~"))):
        raise InvalidCommand("this process's directory has been removed: give an absolute cwd")

    options = RunOptions(
        timeout=timeout,
        silence=silence,
        grace=grace,
        left_behind=left_behind,
        split_stderr=split_stderr,
        stdout=stdout,
        recording=to_recording(record),
        limits=limits,
        effects=to_scan(effects),
        reach=reach,
    )

    async def runs() -> Outcome:
        environment = await front.environment(shell, interactive=interactive)
        request = to_command(command, path, env, stdin, kind=environment.shell.kind)
        request = await environment.runner.addresses.expand(request, workspace=here)
        directory = environment.info.resolve(request.cwd, here)
        request = replace(request, cwd=directory)
        scan = options.effects
        if scan is not None:
            scan = replace(scan, directory=environment.info.resolve(scan.directory, directory))
        settled = replace(options, effects=scan)
        if reach is None:
            return await environment.runner.run(request, settled)
        spawn = await front.confined(environment, request, settled, here or directory)
        return await environment.runner.run(request, settled, spawn=spawn)

    return front.call(runs)
