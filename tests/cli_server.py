"""The program in processes that are forked from one that has loaded it, and otherwise as it starts by itself.

To load it takes some ten times the processor time of what it then does, and the tests run it more than a thousand times.
`Forked` is a `subprocess.Popen` whose process comes from a server of the tests' own, ``python -m tests.cli_server``. It has
descriptors, signals, variables, a directory and a session of its own, runs ``python -m anyshell`` from its first line, and ends
as an interpreter does (`_end`). A process that is to have anything else (`serves`) is started as any other program.

A request is 8 bytes that say how long it is, with four descriptors (stdin, stdout, stderr and a pipe), and then JSON. Into
the pipe goes the pid, and at the end the wait status, 8 bytes each.
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

assert (
    sys.platform == "linux"
)  # where a process can be waited for by a descriptor, and nothing forbids to fork

import resource

import anyshell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

_SIZE = 8
"""Bytes of a number: a length, a pid, a wait status."""

_AT_THE_START = ("PYTHON", "LC_", "LANG", "TZ", "OPENSSL_", "MALLOC_", "LD_")
"""Beginnings of variables that an interpreter, or a library in it, reads when it is loaded."""

_NOT_LOADED = ("anyshell.acp", "anyshell.adapters", "anyshell.console", "anyshell.ray")
"""What the program never loads, or now and then: it takes longest, and makes each fork dearer."""


def serves(how: Mapping[str, Any]) -> bool:
    """Whether a forked process is what one started in this way would be."""
    known = {"stdin", "stdout", "stderr", "cwd", "env", "start_new_session"}
    return how.keys() <= known and _surroundings(how.get("env") or os.environ) == _server()[1]


class Forked(subprocess.Popen[bytes]):
    """The program, forked; `subprocess.Popen` does the rest.

    Args:
        arguments: Those of the program.
        ignored: Signals by their names, and whether it ignores each from the start.
        blocked: Names of those that are blocked.
        terminal: Whether its stdin is also its controlling terminal, in a session of its own.
        how: What `serves` knows.
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
        ends = rest[
            9:15
        ]  # of what is read and written: theirs and ours of stdin, ours and theirs of the others
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
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]
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
            self._wait(0)  # type: ignore[attr-defined]
        return self.returncode


@cache
def _server() -> tuple[socket.socket, list[Any]]:
    """The server of this process, with which it ends, and the surroundings that it has."""
    ours, theirs = socket.socketpair()
    atexit.register(ours.close)
    with theirs:
        command = [sys.executable, "-m", "tests.cli_server", str(theirs.fileno())]
        top = Path(__file__).parents[1]
        subprocess.run(command, pass_fds=[theirs.fileno()], cwd=top, stdin=subprocess.DEVNULL, check=True)
    return ours, _surroundings(os.environ)


def _surroundings(environment: Mapping[str, str]) -> list[Any]:
    """What a process has from its parent, or from its beginning, beside what a request says."""
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
        with contextlib.suppress(AssertionError, ImportError):  # it is of another system
            module = importlib.import_module(each.name)
            if each.ispkg:
                _load(module)


def _serve(requests: int) -> None:
    """Fork a process for each request, until the program that asks is gone; return in each fork."""
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
    with contextlib.suppress(BrokenPipeError):  # the program that asked has ended
        os.write(pipe, number.to_bytes(_SIZE))


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Have what a started program finds."""
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
        # As the interpreter makes them, which buffers what is no terminal, and lines of stderr.
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
    """Serve, as no child of the process that has asked for it: tests count theirs."""
    if os.fork():
        os._exit(0)
    _load(anyshell)
    gc.collect()
    gc.freeze()  # what is loaded is not looked through again in each process
    _serve(requests)
    try:
        runpy.run_module("anyshell", run_name="__main__", alter_sys=True)
    except SystemExit as error:
        _end(error.code)
        raise


def _end(code: object) -> None:
    """End as an interpreter does, but leave to the system what was loaded: that takes six times what a command does.

    Where output cannot be written, or the code is a text, this returns: the interpreter says so, and ends.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # what an interpreter calls first: it waits for threads
    atexit._run_exitfuncs()
    gc.collect()  # whatever of the program complains when it goes does so, as it does at the end
    if isinstance(code, int | None):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    main(int(sys.argv[1]))
