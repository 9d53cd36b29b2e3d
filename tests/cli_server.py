"""The program in processes forked from a process that has loaded it, and otherwise like a started program.

Loading the program takes some ten times the processor time of its work, and the tests run it more than a thousand times.
`Forked` is a `subprocess.Popen` whose process comes from a server of the tests, ``python -m tests.cli_server``. The process has
its own descriptors, signals, variables, directory and session, runs ``python -m anyshell`` from its first line, and ends
like an interpreter (`_end`). A process with further requirements (`serves`) is started like any other program.

A request is 8 bytes with its length, with four descriptors (stdin, stdout, stderr and a pipe), and then JSON. The server
writes the pid into the pipe, and at the end the wait status, 8 bytes each.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

# A process can be waited for by a descriptor there, and fork is permitted.
assert sys.platform == "linux"

import resource

import anyshell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

_SIZE = 8
"""Bytes of a number: a length, a pid, a wait status."""

_AT_THE_START = ("PYTHON", "LC_", "LANG", "TZ", "OPENSSL_", "MALLOC_", "LD_")
"""Prefixes of variables that an interpreter or a library reads at load time."""

_NOT_LOADED = ("anyshell.acp", "anyshell.adapters", "anyshell.console", "anyshell.ray")
"""Modules that the program loads never or rarely: these take longest to load, and make each fork slower."""


def serves(how: Mapping[str, Any]) -> bool:
    """Whether a forked process equals a process started with these options."""
    known = {"stdin", "stdout", "stderr", "cwd", "env", "start_new_session"}
    return how.keys() <= known and _surroundings(how.get("env") or os.environ) == _server()[1]


class Forked(subprocess.Popen[bytes]):
    """The forked program; `subprocess.Popen` does the rest.

    Args:
        arguments: The arguments of the program.
        ignored: Signals by their names, and whether the program ignores each from the start.
        blocked: Names of the blocked signals.
        terminal: Whether stdin is also the controlling terminal, in a new session.
        how: Options that `serves` knows.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        ignored: Mapping[str, bool] | None = None,
        blocked: Sequence[str] = (),
        terminal: bool = False,
        **how: Any,
    ) -> None:
        session = how.pop("start_new_session", False) or terminal
        self._how = {"ignored": ignored or {}, "blocked": blocked, "session": session, "terminal": terminal}
        super().__init__(list(arguments), **how)

    def _execute_child(self, args: Any, *rest: Any) -> None:
        cwd, env = rest[4:6]
        # The pipe ends: the child's and the parent's end of stdin, and the parent's and the child's end of each other stream.
        ends = rest[9:15]
        request = {
            **self._how,
            "arguments": args,
            "cwd": os.path.join(os.getcwd(), os.fsdecode(cwd or "")),
            "env": {**(os.environ if env is None else env)},
        }
        data = json.dumps(request).encode()
        self._told, telling = os.pipe()
        theirs = (ends[0], ends[3], ends[5])
        descriptors = [own if each == -1 else each for own, each in enumerate(theirs)]
        server = _server()[0]
        socket.send_fds(server, [len(data).to_bytes(_SIZE)], [*descriptors, telling])
        server.sendall(data)
        os.close(telling)
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]  # typeshed has no private names
        self.pid = int.from_bytes(os.read(self._told, _SIZE))
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        status = int.from_bytes(os.read(self._told, _SIZE))
        os.close(self._told)
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(0)  # type: ignore[attr-defined]  # typeshed has no private names
        return self.returncode


@cache
def _server() -> tuple[socket.socket, list[Any]]:
    """The server of this process, which ends with this process, and the inherited state of the server."""
    ours, theirs = socket.socketpair()
    atexit.register(ours.close)
    with theirs:
        command = [sys.executable, "-m", "tests.cli_server", str(theirs.fileno())]
        top = Path(__file__).parents[1]
        subprocess.run(command, pass_fds=[theirs.fileno()], cwd=top, stdin=subprocess.DEVNULL, check=True)
    return ours, _surroundings(os.environ)


def _surroundings(environment: Mapping[str, str]) -> list[Any]:
    """The inherited or initial state of a process that a request does not contain."""
    mask = os.umask(0)
    os.umask(mask)
    return [
        *(os.getresuid(), os.getresgid(), os.getgroups(), mask, os.getpgrp()),
        [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")],
        sorted(each for each in environment.items() if each[0].startswith(_AT_THE_START)),
    ]


def _load(package: ModuleType) -> None:
    for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if each.name.endswith("__main__") or each.name in _NOT_LOADED:
            continue
        with contextlib.suppress(AssertionError, ImportError):  # the module is for another system
            module = importlib.import_module(each.name)
            if each.ispkg:
                _load(module)


def _serve(requests: int) -> None:
    """Fork a process for each request, until the client has ended; return in each fork."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready = select.select([requests, *running], [], [])[0]
        for ended in running.keys() & set(ready):
            pid, pipe = running.pop(ended)
            _tell(pipe, os.waitpid(pid, 0)[1])
            os.close(ended)
            os.close(pipe)
        if requests not in ready:
            continue
        with socket.socket(fileno=os.dup(requests)) as asked:
            length, descriptors, _, _ = socket.recv_fds(asked, _SIZE, 4)
            if not length:
                os._exit(0)
            data = b""
            while len(data) < int.from_bytes(length):
                data += asked.recv(1 << 20)
        pid = os.fork()
        if pid == 0:
            _become(json.loads(data), descriptors)
            return
        _tell(descriptors[3], pid)
        running[os.pidfd_open(pid)] = (pid, descriptors[3])
        for each in descriptors[:3]:
            os.close(each)


def _tell(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the client has ended
        os.write(pipe, number.to_bytes(_SIZE))


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Set the state that a started program has."""
    for target, each in enumerate(descriptors[:3]):
        os.dup2(each, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if request["session"]:
        os.setsid()
    if request["terminal"]:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for name, ignored in request["ignored"].items():
        meant = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
        signal.signal(getattr(signal, name), signal.SIG_IGN if ignored else meant)
    signal.pthread_sigmask(signal.SIG_SETMASK, [getattr(signal, name) for name in request["blocked"]])
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        was = getattr(sys, name)
        # Like the interpreter, which buffers streams that are no terminal, and stderr by lines.
        how: dict[str, Any] = {
            "encoding": was.encoding,
            "errors": was.errors,
            "newline": "\n",
            "closefd": False,
        }
        stream = open(fd, "w" if fd else "r", 1 if fd == 2 else -1, **how)  # noqa: SIM115 - open to the end
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.path[0] = os.getcwd()
    sys.argv = ["anyshell", *request["arguments"]]


def main(requests: int) -> None:
    """Serve, but not as a child of the client: tests count their children."""
    if os.fork():
        os._exit(0)
    _load(anyshell)
    gc.collect()
    gc.freeze()  # loaded objects are not scanned again by the collector of each process
    _serve(requests)
    try:
        runpy.run_module("anyshell", run_name="__main__", alter_sys=True)
    except SystemExit as error:
        _end(error.code)
        raise


def _end(code: object) -> None:
    """End like an interpreter, but leave the loaded modules to the system: freeing them takes six times the work of a command.

    If output cannot be written, or the exit code is a text, this returns: the interpreter reports that, and ends.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # what an interpreter calls first: it waits for threads
    atexit._run_exitfuncs()
    gc.collect()  # objects that warn on their destruction do so here, as at the end of an interpreter
    if isinstance(code, int | None):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    main(int(sys.argv[1]))
