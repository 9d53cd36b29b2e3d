"""Reaches: real attempts of commands to get out of their reach, and the mechanisms that enforce a reach."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anyshell
from anyshell import Environment, InvalidCommand, Limits, Policy, Reach, ShellTool, Variables, approve_all
from anyshell._environment.confining import facts_of
from anyshell._types import Spawn
from anyshell.errors import ReachUnavailable
from anyshell.reach import NONE, Facts, LocalPlaces, compile_reach, explain, narrow, question, read_facts
from anyshell.reach.places import PRIVATE
from anyshell.reach.values import lies_in
from anyshell.reach.view import View
from anyshell.tool import unconfined

from .conftest import (
    NOBODY,
    bubblewrap,
    missing,
    once_more_as_an_ordinary_user,
    open_to_all,
    python_for_all,
    row,
)
from .ssh_server import accounts, is_root

assert sys.platform == "linux"  # else mypy checks the code below on every platform

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from anyshell.reach.view import Kind

pytestmark = pytest.mark.anyio

PYTHON = python_for_all()
SECRET = f"hunter2-{os.urandom(6).hex()}"
FACTS = Facts(
    kernel="6.1.0", uid=1000, python="/usr/bin/python3", bwrap="/usr/bin/bwrap", version="0.8.0", landlock=7
)
SYSCALL = "import ctypes, os, struct, sys; libc = ctypes.CDLL(None, use_errno=True); "
REFUSALS = (errno.EPERM, errno.EACCES, errno.EROFS, errno.ESRCH, errno.ENOSYS)


def py(text: str) -> str:
    """A command that runs a text of Python."""
    return f"{PYTHON} -c {shlex.quote(text)}"


def call(text: str) -> str:
    """A command that makes a system call by libc, and fails if the call is refused: if allowed, the kernel rejects the arguments later."""
    refused = f"answer < 0 and ctypes.get_errno() in {REFUSALS}"
    return py(f"{SYSCALL}answer = {text}; sys.exit({refused} and os.strerror(ctypes.get_errno()) or 0)")


WRITES: dict[str, str] = {
    "by its path": "echo x > {outside}/new",
    "over a file": "echo x > {outside}/kept",
    "at the end of a file": "echo x >> {outside}/kept",
    "by ..": "echo x > ../{beside}/kept",
    "by a link that was there": "echo x > link/kept",
    "by a link of its own": "ln -s {outside} l && echo x > l/kept",
    "by a hard link": "ln {outside}/kept hard && echo x > hard",
    "by a rename over it": "echo x > own && mv own {outside}/kept",
    "by a rename away": "mv {outside}/kept mine",
    "by removing it": "rm -f {outside}/kept",
    "by its mode": "chmod 777 {outside}/kept",
    "by its times": "touch {outside}/kept",
    "by an attribute": py("import os; os.setxattr('{outside}/kept', 'user.x', b'x')"),
    "by truncating it": "truncate -s 0 {outside}/kept",
    "by a directory": "mkdir {outside}/directory",
    "by /proc/self/root": "echo x > /proc/self/root{outside}/kept",
    "by /proc/1/root": "echo x > /proc/1/root{outside}/kept",
    "by /proc/self/cwd": "echo x > /proc/self/cwd/../{beside}/kept",
    "by a descriptor of another process": "for each in /proc/[0-9]*/fd/*; do echo x > $each/kept; done; exit 1",
    "by a descriptor reopened for writing": "exec 3<{outside}/kept; echo x > /proc/self/fd/3",
    "by another process's root": "echo x > /proc/{pid}/root{outside}/kept",
    "by a mount of its own": "mount --bind {outside} . && echo x > kept",
    "by a remount": "mount -o remount,rw / && echo x > {outside}/kept",
    "by an unmount": "umount {outside}; umount -l /; echo x > {outside}/kept",
    "by namespaces of its own": "unshare -Urm sh -c 'mount -o remount,rw,bind / ; echo x > {outside}/kept'",
    "by chroot": "chroot /proc/1/root sh -c 'echo x > {outside}/kept'",
    "by open_by_handle_at": py(
        f"{SYSCALL}handle = ctypes.create_string_buffer(struct.pack('I', 128), 136); mount = ctypes.c_int(); "
        "libc.name_to_handle_at(-100, b'{outside}/kept', handle, ctypes.byref(mount), 0); "
        "fd = libc.open_by_handle_at(os.open('.', 0), handle, 1); "
        "os.write(fd, b'x') if fd >= 0 else sys.exit(os.strerror(ctypes.get_errno()))"
    ),
    "by fsopen": call("libc.syscall(430, b'tmpfs', 0)"),
    "by open_tree of the whole": call("libc.syscall(428, -100, b'/', 0x8001)"),
    "by nsenter": "nsenter -t 1 -m sh -c 'echo x > {outside}/kept'",
    "by setuid": "cp $(command -v id) . && chmod u+s id && su -s /bin/sh -c 'echo x > {outside}/kept' root </dev/null",
    "by sudo": "sudo -n sh -c 'echo x > {outside}/kept'",
    "to the system": "echo x > /etc/anyshell-escape",
    "to a start-up file of the shell": "echo x >> {home}/.bashrc",
    "to a file of the user's session": "mkdir -p {home}/.config/systemd/user && echo x > {home}/.config/systemd/user/x.service",
    "to what starts programs at login": "echo x >> {home}/.profile",
    "to cron": "mkdir -p /etc/cron.d && echo '* * * * * root true' > /etc/cron.d/anyshell-escape",
    "to the user's crontab": "echo '* * * * * true' | crontab -",
    "to another's crontab": "mkdir -p /var/spool/cron && echo '* * * * * true' > /var/spool/cron/anyshell-escape",
    "to /usr/local": "echo x > /usr/local/bin/anyshell-escape",
    "to the preload of the linker": "echo /tmp/x.so > /etc/ld.so.preload",
    "to core_pattern": "echo '|/tmp/x' > /proc/sys/kernel/core_pattern",
    "to modprobe": "echo /tmp/x > /proc/sys/kernel/modprobe",
    "to sysrq": "echo h > /proc/sysrq-trigger",
    "to a device's file": "echo x > /sys/kernel/uevent_helper",
    "to cgroups": "mkdir /sys/fs/cgroup/anyshell-escape",
    "to a hook of git": "echo x > .git/hooks/pre-commit",
    "over a hook of git that is there": "echo x > .git/hooks/kept",
    "to the configuration of git": "git config core.fsmonitor /tmp/x || echo x >> .git/config",
    "by another directory for git": "mv .git away && mkdir -p .git/hooks && echo x > .git/hooks/kept",
    "by another directory for hooks": "mv .git/hooks away && mkdir .git/hooks && echo x > .git/hooks/kept",
    "to a shared memory outside": "ls /dev/shm/{name}",
    "to the name of the machine": "hostname anyshell-escape; exit 1",
    "to another's temporary file": "ls /tmp/{name}",
}
"""Attempts of a command to write: each fails, and nothing outside has changed."""

READS: dict[str, str] = {
    "a key": "cat {home}/.ssh/id_ed25519",
    "a key by a link": "ln -s {home}/.ssh s && cat s/id_ed25519",
    "a key by /proc/self/root": "cat /proc/self/root{home}/.ssh/id_ed25519",
    "a key by /proc/1/root": "cat /proc/1/root{home}/.ssh/id_ed25519",
    "a key by an outer process": "cat /proc/{pid}/root{home}/.ssh/id_ed25519",
    "a key beneath its mount": "umount {home}/.ssh; cat {home}/.ssh/id_ed25519",
    "a key in namespaces of its own": "unshare -Urm sh -c 'umount {home}/.ssh; cat {home}/.ssh/id_ed25519'",
    "a login of a cloud": "cat {home}/.aws/credentials",
    "a profile of a browser": "cat {home}/.mozilla/cookies",
    "what another agent knows": "cat {home}/.claude.json",
    "what was typed": "cat {home}/.bash_history",
    "passwords of the system": "grep . /etc/shadow",
    "variables of an outer process": "tr '\\0' '\\n' < /proc/{pid}/environ | grep .",
    "memory of an outer process": call("libc.ptrace(16, {pid}, 0, 0)"),
    "memory by process_vm_readv": call(
        "libc.process_vm_readv({pid}, struct.pack('QQ', 4096, 8), 1, struct.pack('QQ', 4096, 8), 1, 0)"
    ),
    "the kernel's memory": "dd if=/dev/mem count=1 | grep . || dd if=/dev/kmem count=1 | grep .",
    "a disk": py("import os; os.mknod('d', 0o60600, os.stat('.').st_dev); open('d', 'rb').read(1)"),
    "disks by their names": "ls /dev | grep -E '^(vd|sd|nvme|loop)'",
    "the kernel's log": "dmesg",
    "variables that hold secrets": "env | grep ANYSHELL_TEST_TOKEN",
}
"""Attempts of a command to read: each fails."""

TALKS: dict[str, str] = {
    "IPv4": py("import socket; socket.create_connection(('127.0.0.1', {port}), 2)"),
    "an address of this machine": py("import socket; socket.create_connection(('{address}', {port}), 2)"),
    "IPv6": py("import socket; s = socket.socket(socket.AF_INET6); s.connect(('::1', {port}))"),
    "UDP": py(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('1.1.1.1', 53))"
    ),
    "a name": py("import socket; socket.getaddrinfo('example.org', 80)"),
    "raw": py("import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"),
    "ICMP": py(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); s.sendto(b'x' * 8, ('1.1.1.1', 0))"
    ),
    "bash's own": "exec 3<>/dev/tcp/127.0.0.1/{port}",
    "the network of another process": "nsenter -t {pid} -n true",
    "settings of a network device": "ip link set lo up",
    "an abstract socket": py("import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}')"),
    "a socket in a directory": py(
        "import os, socket; os.chdir('{outside}'); s = socket.socket(socket.AF_UNIX); s.connect('socket')"
    ),
    "a socket in /tmp": py("import socket; s = socket.socket(socket.AF_UNIX); s.connect('/tmp/{name}')"),
    "a socket in /run": py("import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/{name}')"),
    "the socket of docker": py(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/var/run/docker.sock')"
    ),
    "the bus of the system": py(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/dbus/system_bus_socket')"
    ),
    "a display": py("import socket; s = socket.socket(socket.AF_UNIX); s.connect('/tmp/.X11-unix/X0')"),
    "the agent of SSH": py(
        "import os, socket; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['SSH_AUTH_SOCK'])"
    ),
    "a signal to an outer process": "kill -0 {pid}",
    "a signal to all": "kill -9 -1; exit 1",
    "words on another's terminal": "echo x > {terminal}",
    "typing on another's terminal": py(
        "import fcntl, os, termios; fcntl.ioctl(os.open('{terminal}', os.O_RDWR | os.O_NOCTTY), termios.TIOCSTI, b'x')"
    ),
    "programs of the kernel's filters": call("libc.syscall(321, 11, b'\\0' * 128, 128)"),
    "a module": call("libc.syscall(175, b'', 0, b'')"),
    "another root": call("libc.syscall(155, b'/', b'/')"),
    "the clock": call("libc.adjtimex(struct.pack('I204x', 0x4000))"),  # ADJ_TICK, with an invalid tick
}
"""Attempts of a command to communicate: each fails."""


UNEXPLAINED = {
    "a key by a link": "it names a path of the workspace alone",
    "by setuid": "su finds no password, for an ordinary user",
    "disks by their names": "it prints nothing",
    "variables that hold secrets": "it prints nothing",
    "a module": "a kernel without modules says so to everyone",
    "to the user's crontab": "the program is not there",
}
"""Attempts whose output is too little for an explanation of the sandbox, each with the reason."""


class World:
    """A workspace, and the files around it."""

    def __init__(self, top: Path) -> None:
        self.workspace = top / "workspace"
        self.outside = top / "outside"
        self.home = top / "home"
        for path in (self.workspace / ".git" / "hooks", self.outside, self.home):
            path.mkdir(parents=True)
        self.name = f"anyshell-{os.urandom(6).hex()}"
        self.terminal = ""
        for place, text in {
            "home/.ssh/id_ed25519": SECRET,
            "home/.aws/credentials": SECRET,
            "home/.mozilla/cookies": SECRET,
            "home/.claude.json": SECRET,
            "home/.bash_history": SECRET,
            "home/.bashrc": "kept",
            "home/.profile": "kept",
            "outside/kept": "kept",
            "workspace/.git/hooks/kept": "kept",
            "workspace/.git/config": "[core]\n",
            "workspace/.git/HEAD": "ref: refs/heads/main\n",
        }.items():
            (top / place).parent.mkdir(parents=True, exist_ok=True)
            (top / place).write_text(text)
        (self.workspace / "link").symlink_to(self.outside)
        self.top = top

    def fill(self, text: str, **more: object) -> str:
        """Insert the paths of this world into a text."""
        values: dict[str, object] = {
            "outside": str(self.outside), "beside": "outside", "home": str(self.home), "pid": os.getpid(), "name": self.name, "terminal": self.terminal,
        }  # fmt: skip
        values |= more
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", str(value)).replace(f"{{{name}!r}}", repr(value))
        return text

    def state(self) -> dict[str, object]:
        """The files that no command may change."""
        found: dict[str, object] = {}
        for top in (self.outside, self.home, self.workspace / ".git"):
            for path in sorted(top.rglob("*")):
                how = path.lstat()
                if not path.is_socket():
                    found[str(path)] = (
                        how.st_mode,
                        how.st_size,
                        how.st_mtime_ns,
                        path.read_bytes() if path.is_file() else b"",
                    )
        for path in map(
            Path, ("/etc/anyshell-escape", "/etc/cron.d/anyshell-escape", "/usr/local/bin/anyshell-escape")
        ):
            found[str(path)] = path.exists()
        for name in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/etc/ld.so.preload"):
            found[name] = Path(name).read_text() if Path(name).exists() else None
        found["host"] = socket.gethostname()
        return found


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A temporary directory that commands can see: each command has a ``/tmp`` of its own."""
    if not lies_in(str(tmp_path), PRIVATE):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/srv" if is_root() else Path.home()) as made:
        yield Path(made)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A workspace, a home with secrets, and servers that listen outside."""
    bubblewrap()
    made = World(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("ANYSHELL_TEST_TOKEN", SECRET)
    with contextlib.ExitStack() as stack:
        places = [
            f"\0{made.name}",
            *(f"{top}/{made.name}" for top in ("/tmp", "/run") if os.access(top, os.W_OK)),
        ]
        for place in places:
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(place)
            server.listen()
        for place in places[1:]:
            stack.callback(os.unlink, place)
        terminals = os.openpty()
        made.terminal = os.ttyname(terminals[1])
        for fd in (*terminals, os.open(made.outside, os.O_RDONLY)):
            stack.callback(os.close, fd)
        Path("/dev/shm", made.name).touch()
        stack.callback(os.unlink, f"/dev/shm/{made.name}")
        short = Path(f"/tmp/{made.name}-to")  # the path of a socket has 108 bytes at most
        short.symlink_to(made.outside)
        stack.callback(short.unlink)
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(f"{short}/socket")
        server.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", f"/tmp/{made.name}")
        yield made


@pytest.fixture
async def env(world: World, anyio_backend: str) -> AsyncIterator[Environment]:
    async with Environment.detect(cwd=world.workspace, reach=Reach.preset("workspace")) as environment:
        yield environment


ALONE = "a signal to all"
"""The attempt that would end all processes in the same sandbox."""


async def endings(env: Environment, texts: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """Run many texts within one command, each in its own shell; give exit codes and outputs by the names of the texts."""
    lines = [
        f"timeout 20 bash -c {shlex.quote(text)} </dev/null; printf '\\n=%s %s\\n' $? {shlex.quote(name)}"
        for name, text in texts.items()
    ]
    outcome = await env.run("\n".join(lines), timeout=120)
    assert SECRET not in outcome.output.text, outcome
    told = re.findall(r"(.*?)\n=(\d+) (.+?)\n", outcome.output.text, re.DOTALL)
    ended = {name: (int(code), said) for said, code, name in told}
    assert ended.keys() == texts.keys(), outcome
    return ended


async def none_succeeds(env: Environment, world: World, table: Mapping[str, str], **more: object) -> None:
    """Try the texts of a table; none may succeed, or change the files around the workspace. Each refusal is explained."""
    assert env.reach is not None
    lacks = getattr(env.runner.sandbox, "lacks", ())
    unexplained: list[tuple[str, str]] = []
    before = world.state()
    texts = {name: world.fill(text, **more) for name, text in table.items()}
    alone = texts.pop(ALONE, None)
    with accounts():
        ended = await endings(env, texts)
    for name, (code, said) in ended.items():
        with row(name):
            assert code != 0
        if name not in UNEXPLAINED and not said.endswith("command not found\n"):
            unexplained += [] if explain(said, env.reach, env.info.home, lacks) else [(name, said)]
    assert not unexplained
    if alone is not None:
        assert (await env.run(alone)).exit_code != 0
    assert world.state() == before


async def test_no_write_leaves_the_reach(world: World, env: Environment) -> None:
    await none_succeeds(env, world, WRITES)
    assert (
        await env.run(
            "echo x > own && mkdir d && mv own d && cat d/own; git status --short >/dev/null; rm -r d"
        )
    ).exit_code == 0


async def test_no_secret_is_read(world: World, env: Environment) -> None:
    await none_succeeds(env, world, READS)


def listening() -> socket.socket:
    """A server on every address of this machine."""
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("", 0))
    return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)


async def test_nothing_outside_is_reached(world: World, env: Environment) -> None:
    with listening() as server:
        port = server.getsockname()[1]
        address = socket.gethostbyname(socket.gethostname())
        await none_succeeds(env, world, TALKS, port=port, address=address)
        socket.create_connection(("127.0.0.1", port), 2).close()  # the server listens


async def test_abstract_socket_is_unreachable_with_the_hosts_network(world: World) -> None:
    """With the host's network the network namespace does not separate these sockets, but Landlock does."""
    reach = Reach(write=(".",), network=True)
    texts = [TALKS[name] for name in ("an abstract socket", "a socket in a directory", "a socket in /tmp")]
    async with Environment.detect(cwd=world.workspace, reach=reach) as env:
        with socket.create_server(("127.0.0.1", 0)) as server:
            connecting = py(
                f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)"
            )
            assert (await env.run(connecting)).exit_code == 0
        for text in texts:
            with row(text):
                assert (await env.run(world.fill(text))).exit_code != 0


def delegated() -> set[str]:
    """The limits of control groups that this process may set, as the kernel's own files say."""
    own = next(
        (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"), "/"
    )
    for top in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if not (top / own[1:] / "cgroup.controllers").exists():
            continue
        for group in (top / own[1:], *(top / own[1:]).parents):
            limits = {"memory", "pids"} & {*(group / "cgroup.subtree_control").read_text().split()}
            if limits and os.access(group / "cgroup.procs", os.W_OK):
                return limits
            if group == top:
                break
    return set()


async def groups(env: Environment) -> set[str]:
    """The limits of control groups that a reach has found on this machine."""
    found = set((await facts_of(env.runner.backend, here=True)).controllers)
    assert found == delegated()
    return found


async def test_limits_of_a_control_group_hold_for_the_whole_tree(world: World) -> None:
    limits = Limits(memory=64 * 2**20, processes=8)
    async with Environment.detect(cwd=world.workspace, reach=Reach(write=(".",))) as env:
        if await groups(env) != {"memory", "pids"}:
            pytest.skip("cgroup v2 is not delegated here for memory and pids")
        child = "y = bytearray(40 * 2**20)"
        both = py(
            f"import subprocess, sys; x = {child[4:]}; print(subprocess.run([sys.executable, '-c', '{child}']).returncode)"
        )
        assert (await env.run(both, timeout=60)).output.text == "0\n"
    async with Environment.detect(cwd=world.workspace, reach=Reach(write=(".",), limits=limits)) as env:
        outcome = await env.run(both, timeout=60)
        assert not outcome.output.text.startswith("0\n")
        assert "the limit of memory was reached (67108864 bytes)" in outcome.output.text
        room = py("import mmap; print(len(mmap.mmap(-1, 2**30)))")
        assert (await env.run(room)).output.text == "1073741824\n"  # address space, which takes no memory
        starts = py(
            "import subprocess\nfound = []\n"
            "try:\n    while True: found.append(subprocess.Popen(['sleep', '300']))\n"
            "except OSError as error: print(len(found), error.errno)\n"
            "for each in found: each.kill()"
        )
        # As many processes as the limit, less the process that starts them.
        assert (await env.run(f"exec {starts}", timeout=60)).output.text == f"7 {errno.EAGAIN}\n"
        assert (await env.run("kill -KILL $$")).signal == "SIGKILL"
        async with env.session() as session:
            assert "137" in (await session.run(py("x = bytearray(100 * 2**20)") + "; echo $?")).output.text
        place = (await facts_of(env.runner.backend, here=True)).cgroup
        assert place is not None
        before = {*Path(place).glob("anyshell-*")}
        assert (await env.run("sleep 300 & sleep 0.1", left_behind="stop")).left_behind
        assert not before.intersection(
            Path(place).glob("anyshell-*")
        )  # each command removes the control groups that others have left


def test_a_control_group_takes_the_place_of_limits_of_processes() -> None:
    reach = Reach(write=("/",), limits=Limits(memory=5, processes=7, cpu=9))
    facts = replace(FACTS, uid=0, cgroup="/sys/fs/cgroup/x", controllers=("memory", "pids"))
    spawn = Spawn(argv=("true",), cwd="/")
    argv = [*compile_reach(reach, facts, LocalPlaces()).wrap(spawn).argv]
    assert argv[4:7] == ["/sys/fs/cgroup/x", "5", "10"]
    assert [each for each in argv if each.startswith("limit=")] == ["limit=CPU:9"]
    far = [*compile_reach(reach, facts, None).wrap(spawn).argv]
    assert [each for each in far if each.startswith("group=")] == [
        "group=/sys/fs/cgroup/x",
        "group=5",
        "group=10",
    ]
    facts = replace(facts, uid=1000, controllers=("pids",))
    argv = [*compile_reach(reach, facts, LocalPlaces()).wrap(spawn).argv]
    assert argv[4:7] == ["/sys/fs/cgroup/x", "", "10"]
    assert "limit=AS:5" in argv
    argv = [
        *compile_reach(reach, replace(facts, cgroup=None, controllers=()), LocalPlaces()).wrap(spawn).argv
    ]
    assert argv[4:7] == ["", "", ""]
    assert "limit=NPROC:7" in argv


async def test_command_does_not_run_without_its_control_group(world: World) -> None:
    async with Environment.detect() as bare:
        facts = await facts_of(bare.runner.backend, here=True)
    reach = Reach(write=(str(world.workspace),), limits=Limits(memory=2**30))
    sandbox = compile_reach(
        reach, replace(facts, cgroup="/proc/none", controllers=("memory",)), LocalPlaces()
    )
    async with Environment.detect(cwd=world.workspace, reach=sandbox) as env:
        outcome = await env.run("touch ran")
    assert outcome.exit_code == 125
    assert "its limits could not be set by a control group" in outcome.output.text
    assert not (world.workspace / "ran").exists()


async def test_limits_hold(world: World) -> None:
    limits = Limits(memory=512 * 1024 * 1024, processes=None if is_root() else 40, file_size=65536, cpu=1)
    async with Environment.detect(cwd=world.workspace, reach=Reach(write=(".",), limits=limits)) as env:
        outcome = await env.run(py("b'x' * (1024 * 1024 * 1024)"))
        assert outcome.exit_code != 0
        # A control group kills the program instead of refusing the memory.
        assert ("MemoryError" in outcome.output.text) == ("memory" not in await groups(env))
        outcome = await env.run("head -c 100000 /dev/zero > large", timeout=20)
        assert (world.workspace / "large").stat().st_size == 65536
        assert outcome.exit_code != 0
        outcome = await env.run("exec " + py("while True: pass"), timeout=30)
        assert outcome.signal == "SIGXCPU"
        outcome = await env.run("head -c 2000000000 /dev/zero > /dev/shm/x", timeout=60)
        assert outcome.exit_code != 0
        if not is_root():
            outcome = await env.run("f() { f | f & }; f; sleep 1; echo over", timeout=20)
            assert "Resource temporarily unavailable" in outcome.output.text or outcome.exit_code != 0


async def test_own_temporary_directory_is_empty_and_ends_with_the_command(
    world: World, env: Environment
) -> None:
    name = f"{world.name}-own"
    assert (
        await env.run(f"echo x > /tmp/{name} && cat /tmp/{name} && echo $TMPDIR")
    ).output.text == "x\n/tmp\n"
    assert not Path("/tmp", name).exists()
    assert (await env.run(f"ls /tmp/{name}")).exit_code != 0


async def test_read_only_writes_nothing(world: World) -> None:
    async with Environment.detect(cwd=world.workspace, reach=Reach.preset("read-only")) as env:
        assert (await env.run("echo x > new")).exit_code != 0
        assert (await env.run("cat .git/HEAD && echo x > /tmp/new")).exit_code == 0
    assert not (world.workspace / "new").exists()


async def test_a_workspace_may_lie_in_the_temporary_directory(world: World) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory, "kept").write_text("kept")
        async with Environment.detect(cwd=directory, reach=Reach.preset("read-only")) as env:
            assert (await env.run("cat kept")).output.text == "kept"
            assert (await env.run("echo x > new")).exit_code != 0
        async with Environment.detect(cwd=directory, reach=Reach.preset("workspace")) as env:
            assert (await env.run("echo x > new; ls /tmp | wc -l")).output.text == "1\n"
        assert Path(directory, "new").exists()


async def test_vanishing_sockets_do_not_prevent_commands(world: World, env: Environment) -> None:
    """A socket is covered by a mount. A socket that has gone cannot be covered, and half of the commands here would not run."""
    over = threading.Event()

    def churn() -> None:
        number = 0
        while not over.wait(0.003):
            number += 1
            with contextlib.suppress(FileNotFoundError), socket.socket(socket.AF_UNIX) as server:
                name = f"/tmp/{world.name}-to/{number % 40}"
                server.bind(name)
                server.listen()
                over.wait(0.003)
                os.unlink(name)

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        for _ in range(20):
            outcome = await env.run("echo out; echo err >&2; exit 3", split_stderr=True)
            assert outcome.stderr is not None
            said = (outcome.exit_code, outcome.output.text, outcome.stderr.text)
            assert said == (3, "out\n", "err\n")
    finally:
        over.set()
        churning.join()


def test_unbuildable_sandbox_is_reported_once(world: World) -> None:
    answer = subprocess.run(
        question(PYTHON).argv, cwd="/", capture_output=True, timeout=60, check=True
    ).stdout
    sandbox = compile_reach(Reach(write=(str(world.workspace),)), read_facts(answer), LocalPlaces())
    wrapped = sandbox.wrap(Spawn(argv=("/bin/sh", "-c", ":"), cwd=str(world.workspace)))
    argv = ["--no-such-option" if word == "--unshare-pid" else word for word in wrapped.argv]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 125
    assert done.stderr.count("--no-such-option") == 1
    assert done.stderr.endswith("its sandbox could not be built (see above)\n")


async def test_paths_outside_the_reach_do_not_exist(world: World) -> None:
    """A listing reports the same as for a path that never existed: a refusal would reveal an existing file."""
    paths = [world.outside, world.outside / "kept", world.top / "never"]
    paths += [
        path for path in map(Path, ("/mnt", "/boot")) if path.is_dir() and path not in world.top.parents
    ]
    async with Environment.detect(cwd=world.workspace, reach=Reach(read=(".",))) as env:
        assert (await env.run("cat .git/HEAD")).exit_code == 0
        for path in paths:
            with row(str(path)):
                said = (await env.run(f"LC_ALL=C ls {path}")).output.text
                assert str(path) in said
                assert said.endswith("No such file or directory\n")
        assert (await env.run(f"ls {world.top}")).output.text == "workspace\n"


async def test_call_may_narrow_but_not_widen_its_reach(world: World, env: Environment) -> None:
    narrower = Reach.preset("read-only")
    assert (await env.run("echo x > new", reach=narrower)).exit_code != 0
    assert (await env.run("echo x > new")).exit_code == 0
    fewer = replace(narrower, environment=Variables(inherit="core"))
    assert (await env.run("echo x$SSH_AUTH_SOCK", reach=fewer)).output.text == "x\n"
    bare = Reach(write=(".",), hide=(), protect=())
    for text in (READS["a key"], WRITES["over a hook of git that is there"]):
        assert (await env.run(world.fill(text), reach=bare)).exit_code != 0
    for wider in (
        replace(narrower, network=True),
        replace(narrower, write=("/",)),
        replace(narrower, network=("example.org",)),
    ):
        with pytest.raises(InvalidCommand, match=r"than the reach of the environment"):
            await env.run("true", reach=wider)


async def test_a_link_that_a_command_makes_widens_no_call(world: World, env: Environment) -> None:
    assert (await env.run(f"ln -s {world.outside} build")).exit_code == 0
    with pytest.raises(InvalidCommand, match="than the reach of the environment"):
        await env.run("echo x > build/kept", reach=Reach(write=("build",)))
    assert (world.outside / "kept").read_text() == "kept"


async def test_protected_paths_stay_protected_behind_a_link(world: World) -> None:
    (world.top / "behind").symlink_to(world.workspace)
    async with Environment.detect(cwd=world.top / "behind", reach=Reach.preset("workspace")) as env:
        assert (await env.run(WRITES["over a hook of git that is there"])).exit_code != 0
        assert (await env.run("echo x > new")).exit_code == 0


@pytest.mark.parametrize("way", ["echo gitdir: own > .git", "rm .git", "mv .git other", "mkdir d; mv d .git"])
async def test_git_file_of_a_worktree_is_protected(world: World, way: str) -> None:
    # A changed file would name a repository whose hooks and configuration a command has written.
    file = world.workspace / "tree" / ".git"
    file.parent.mkdir()
    file.write_text("gitdir: /elsewhere\n")
    async with Environment.detect(cwd=file.parent, reach=Reach.preset("workspace")) as env:
        outcome = await env.run(f"echo x > written && {way}")
        assert outcome.exit_code != 0
        assert (file.parent / "written").exists()
    assert file.read_text() == "gitdir: /elsewhere\n"


async def test_each_kind_of_call_may_narrow_its_reach(world: World, env: Environment) -> None:
    less = Reach.preset("read-only")
    text = "echo x > made; echo over"
    async with env.stream(text, reach=less) as events:
        said = ["".join([event.text async for event in events])]
    job = await env.start(text, reach=less)
    await job.wait()
    said.append((await job.output()).text)
    async with env.terminal(text, reach=less) as terminal:
        said.append((await terminal.wait()).output.text)
    async with env.session(reach=less) as session:
        said.append((await session.run(text)).output.text)
    detached = await env.start(text, detach=True, reach=less)
    await detached.wait()
    said.append(await env.files.read_text(detached.record.log))
    for each in said:
        assert "Read-only file system" in each
        assert "over" in each
    assert not (world.workspace / "made").exists()


async def test_a_job_of_a_session_outlives_its_shell(env: Environment) -> None:
    async with env.session() as session:
        job = (await session.run("sleep 600 & echo $$")).job
        assert job is not None
    assert (await env.run("true")).exit_code == 0
    assert env.jobs.get(job).status == "running"
    await env.jobs.get(job).stop()
    assert env.jobs.get(job).status == "stopped"


async def test_reach_argument_cannot_widen_the_reach_of_a_policy(world: World) -> None:
    file = world.top / "rules.toml"
    file.write_text('preset = "trusted"\nreach = "workspace"\n')
    policy = Policy.load(file)
    text = f"echo x > {world.outside}/kept; echo x > made"
    async with Environment.detect(cwd=world.workspace, policy=policy) as env:
        result = await ShellTool(env, approver=approve_all)({"command": text})
        assert "Read-only file system" in result.text
        assert (world.workspace / "made").exists()
        assert not env.unconfined
    less = Reach.preset("read-only")
    async with Environment.detect(cwd=world.workspace, policy=policy, reach=less) as env:
        assert (await env.run("echo x > more")).exit_code != 0
    for wider in (Reach.preset("none"), Reach(write=(".",), network=True)):
        with pytest.raises(InvalidCommand, match="than the reach of the environment"):
            await Environment.detect(cwd=world.workspace, policy=policy, reach=wider)
    with pytest.raises(InvalidCommand, match="cannot be compared"):
        await Environment.detect(cwd=world.workspace, policy=policy, reach=Nice())
    async with Environment.detect(cwd=world.workspace) as env:
        with pytest.raises(InvalidCommand, match=r"Environment.detect\(policy="):
            ShellTool(env, approver=approve_all, policy=policy)
    assert (world.outside / "kept").read_text() == "kept"


def test_a_blocking_run_is_confined(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.workspace)
    reach = Reach.preset("workspace")
    outcome = anyshell.run(f"echo x > made; echo x > {world.outside}/kept", reach=reach)
    assert "Read-only file system" in outcome.output.text
    assert (world.workspace / "made").exists()
    assert anyshell.run("kill -9 $$", reach=reach, cwd=".git").signal == "SIGKILL"
    with pytest.raises(InvalidCommand, match="not within the reach"):
        anyshell.run("true", cwd="/tmp", reach=reach)


async def test_a_directory_out_of_reach_is_an_error_before_anything_runs(
    world: World, env: Environment
) -> None:
    with pytest.raises(InvalidCommand, match=r"not within the reach"):
        await env.run("true", cwd="/tmp")
    with pytest.raises(InvalidCommand, match=r"not within the reach"):
        await env.run("true", cwd=world.home / ".ssh")
    assert (await env.run("pwd", cwd=world.outside)).output.text == f"{world.outside}\n"


async def test_everything_runs_within_a_reach(world: World, env: Environment) -> None:
    texts = {
        "a stream": "", "a job": "", "a terminal": "", "a session": "", "a detached job": "",
    }  # fmt: skip
    escape = f"echo x > {world.outside}/kept; echo x > made; echo over"
    async with env.stream(escape) as events:
        texts["a stream"] = "".join([event.text async for event in events])
    job = await env.start(escape)
    await job.wait()
    texts["a job"] = (await job.output()).text
    async with env.terminal(escape) as terminal:
        texts["a terminal"] = (await terminal.wait()).output.text
    async with env.session() as session:
        texts["a session"] = (await session.run(escape)).output.text
        assert (await session.run("cd .git; x=5")).exit_code == 0
        assert (await session.run("echo $x; pwd")).output.text == f"5\n{world.workspace}/.git\n"
    detached = await env.start(escape, detach=True)
    await detached.wait()
    texts["a detached job"] = await env.files.read_text(detached.record.log)
    for name, text in texts.items():
        with row(name):
            assert "Read-only file system" in text
            assert "over" in text
    assert (world.outside / "kept").read_text() == "kept"


def test_values_of_reach_and_limits_are_checked() -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda: Reach(read="/"), "read must be several texts"),  # type: ignore[arg-type]  # bad input is the point
        (lambda: Reach(write=("",)), "write has an empty path"),
        (lambda: Reach(hide=("~other/x",)), "another user's home"),
        (lambda: Reach(write=("a\0b",)), "NUL"),
        (lambda: Reach(network="example.org"), "network must be several texts"),  # type: ignore[arg-type]  # bad input is the point
        (lambda: Reach(network=()), "network must be True"),
        (lambda: Reach(limits=5), "limits must be"),  # type: ignore[arg-type]  # bad input is the point
        (lambda: Reach(environment="all"), "environment must be"),  # type: ignore[arg-type]  # bad input is the point
        (lambda: Reach(read=["/x"] * 300), "more than 256"),  # type: ignore[arg-type]  # bad input is the point
        (lambda: Limits(memory=0), "memory must be a whole number above 0"),
        (lambda: Limits(cpu=True), "cpu must be"),
        (lambda: Reach.preset("all"), "preset"),  # type: ignore[arg-type]  # bad input is the point
        (lambda: Environment.detect(reach="workspace"), "reach must be a Reach"),  # type: ignore[arg-type]  # bad input is the point
    ]
    for make, said in wrong:
        with row(said), pytest.raises(InvalidCommand, match=said):
            make()


def test_unenforceable_reach_is_refused_with_the_missing_part_and_the_way() -> None:
    workspace = Reach.preset("workspace").resolved("/srv", "/home/x")
    lacks: dict[str, tuple[Reach, Facts]] = {
        "bubblewrap: there is no program": (workspace, replace(FACTS, bwrap=None)),
        "bubblewrap 0.8": (workspace, replace(FACTS, version="0.4.1")),
        "AppArmor restricts": (
            workspace,
            replace(FACTS, apparmor=True, cannot={"user": "Permission denied"}),
        ),
        "sysctl kernel.unprivileged_userns_clone": (
            workspace,
            replace(FACTS, allowed=False, cannot={"user": "No permissions"}),
        ),
        "sysctl user.max_user_namespaces": (
            workspace,
            replace(FACTS, most_namespaces=0, cannot={"user": "exceeded (ENOSPC)"}),
        ),
        "seccomp=unconfined --security-opt systempaths=unconfined; otherwise": (
            workspace,
            replace(FACTS, cannot={"user": "No permissions"}),
        ),
        "apparmor=unconfined; otherwise": (
            workspace,
            replace(FACTS, profile="docker-default", cannot={"user": "Failed to make / slave"}),
        ),
        "apparmor=unconfined on a host with sysctl kernel.apparmor": (
            workspace,
            replace(FACTS, profile="docker-default", apparmor=True, cannot={"user": "No permissions"}),
        ),
        "chmod u-s": (workspace, replace(FACTS, setuid=True, cannot={"user": "capset failed"})),
        "systempaths=unconfined": (workspace, replace(FACTS, cannot={"proc": "Can't mount proc"})),
        "network namespace": (workspace, replace(FACTS, cannot={"net": "no"})),
        "a network namespace here": (
            replace(workspace, network=("example.org",)),
            replace(FACTS, cannot={"net": "no"}),
        ),
        "Python 3": (workspace, replace(FACTS, python=None)),
        "limits: processes": (replace(workspace, limits=Limits(processes=5)), replace(FACTS, uid=0)),
        "only Linux, macOS and Windows": (workspace, replace(FACTS, system="FreeBSD")),
        "Seatbelt: there is no": (workspace, replace(FACTS, system="Darwin")),
        "write, hide, protect, network: a Job Object": (workspace, Facts(system="Windows")),
        "^this host cannot enforce the reach; it lacks limits: file_size: a Job": (
            replace(Reach.preset("none"), limits=Limits(file_size=1)),
            Facts(system="Windows"),
        ),
    }
    for said, (reach, facts) in lacks.items():
        with row(said), pytest.raises(ReachUnavailable, match=said) as raised:
            compile_reach(reach, facts, LocalPlaces())
        assert raised.value.part
        assert raised.value.way


def test_message_says_how_to_allow_user_namespaces(tmp_path: Path) -> None:
    """A user namespace in which no further namespace can be made, and a bwrap with a setuid bit."""
    bubblewrap()
    nested = ["unshare", "-Ur", "sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh"]
    if subprocess.run([*nested, "true"], capture_output=True, check=False).returncode != 0:
        missing("unshare", "apt-get install util-linux")
    program = [*nested, sys.executable, "-P", "-m", "anyshell"]
    text = f"touch {tmp_path}/ran"
    done = subprocess.run(
        [*program, "run", "--reach", "workspace", "--", text],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 125
    assert "What to do: allow them: sysctl user.max_user_namespaces=10000" in done.stderr
    assert "ask for a Reach with landlock=True, network=True, protect=[]" in done.stderr
    assert not (tmp_path / "ran").exists()
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'preset = "trusted"\n[reach]\nwrite = ["."]\nprotect = []\nnetwork = true\nlandlock = true\n'
    )
    params = json.dumps({"command": "touch ran && echo x > ../outside"})
    done = subprocess.run(
        [*program, "call", "--approve-all", "--policy", rules, params],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert "../outside: Permission denied" in done.stdout, done
    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "../outside").exists()
    said = subprocess.run(
        [*program, "doctor"], capture_output=True, text=True, timeout=120, check=False
    ).stdout
    assert re.search(
        r"missing +sandbox +user namespaces: .*sysctl user\.max_user_namespaces", " ".join(said.split())
    )
    if is_root():
        open_to_all(tmp_path)
        shutil.copy(shutil.which("bwrap") or "", tmp_path / "bwrap")
        (tmp_path / "bwrap").chmod(0o4755)
        asked = [f"PATH={tmp_path}:{os.environ['PATH']}", *question(PYTHON).argv]
        answer = subprocess.run(
            ["env", *asked], user=NOBODY, group=NOBODY, cwd="/", capture_output=True, timeout=60, check=True
        ).stdout
        with pytest.raises(ReachUnavailable, match=f"chmod u-s {tmp_path}/bwrap"):
            compile_reach(Reach(write=("/",)), read_facts(answer), LocalPlaces())


def test_view_resolves_links_as_the_system_does(tmp_path: Path) -> None:
    base = Path(os.path.realpath(tmp_path))
    (base / "a" / "b").mkdir(parents=True)
    (base / "link").symlink_to("a")
    (base / "a" / "deep").symlink_to("../link/b")
    (base / "loop").symlink_to("loop")
    (base / "gone").symlink_to("nowhere/x")
    places = LocalPlaces()
    view = View({"private": (), "system": ()}, places)
    names = [
        "a",
        "link",
        "link/b",
        "link/deep/x",
        "loop",
        "loop/x",
        "gone",
        "gone/y",
        "none/x/y",
        "a/../link/b",
        "a/",
        "a/./b",
        "",
    ]
    for path in [*(f"{base}/{name}" for name in names), "/", "/..", "/etc/../etc", "//etc", "/proc/self/cwd"]:
        with row(path):
            assert view._real(path) == places.real(path)


class MacPlaces:
    """Paths as macOS has them."""

    def real(self, path: str) -> str:
        """The path without the links of the system."""
        return f"/private{path}" if lies_in(path, ("/tmp", "/var", "/etc")) else path

    def is_link(self, path: str) -> bool:
        """Whether the path is one of the system's links."""
        return path in ("/tmp", "/var", "/etc")

    def kind(self, path: str) -> Kind:
        """The kind of a path: every path exists."""
        return "directory" if path != "/usr/bin/sandbox-exec" else "file"

    def sockets(self) -> tuple[str, ...]:
        """The known sockets: none."""
        return ()


def seatbelt(reach: Reach, cwd: str = "/Users/x/w") -> list[str]:
    """The words that enforce a reach on macOS."""
    sandbox = compile_reach(reach.resolved("/Users/x/w", "/Users/x"), Facts(system="Darwin"), MacPlaces())
    return list(sandbox.wrap(Spawn(argv=("/bin/sh", "-c", "true"), cwd=cwd, needs=("/tmp/own",))).argv)


def test_seatbelt_profile_expresses_the_reach() -> None:
    """The profile is tested as a text: it has not run on macOS. The last matching rule decides."""
    words = seatbelt(
        Reach(write=(".", 'odd "name"\\'), hide=("~/.ssh", "/var/keys"), protect=(".git/hooks",))
    )
    at = words.index("/usr/bin/sandbox-exec")
    assert words[at + 1] == "-p"
    assert words[at + 3 :] == ["/bin/sh", "-c", "true"]
    profile = words[at + 2]
    rules = [
        "(deny default)",
        '(allow file-read* (subpath "/"))',
        '(deny file-read* file-write* (subpath "/private/tmp") ',
        '(allow file-write* (subpath "/Users/x/w") (subpath "/Users/x/w/odd \\"name\\"\\\\"))',
        '(deny file-write* (subpath "/Users/x/w/.git/hooks") ',
        '(deny file-write-unlink (literal "/Users/x/w/.git")',
        '(deny file-read* file-write* (subpath "/Users/x/.ssh") (subpath "/private/var/keys"))',
        '(allow file-read* file-write* (subpath "/private/tmp/own"))',
    ]
    found = [profile.find(rule) for rule in rules]
    assert -1 not in found, dict(zip(rules, found, strict=True))
    assert found == sorted(found)
    assert profile.count("(") == profile.count(")")
    assert "network-outbound" not in profile
    assert "()" not in profile
    assert "network-outbound (remote ip)" in seatbelt(Reach(network=True))[at + 2]
    # A rule without a path would apply to all paths.
    assert '(subpath "/")' not in seatbelt(Reach(read=("/Users/x/w",), hide=(), protect=()))[at + 2]
    limited = seatbelt(Reach(write=(".",), limits=Limits(file_size=1500, cpu=3)))
    assert (
        limited[2] == 'ulimit -c 0 && ulimit -f 2 && ulimit -S -t 3 && ulimit -H -t 4 && exec "$@"; exit 125'
    )


def test_reach_inexpressible_in_seatbelt_is_refused() -> None:
    for limits in (Limits(memory=1), Limits(processes=1)):
        with pytest.raises(ReachUnavailable, match="macOS limits that for no command"):
            seatbelt(Reach(limits=limits))
    with pytest.raises(ReachUnavailable, match="control characters"):
        seatbelt(Reach(write=("a\nb",)))
    for cwd in ("/Users/x/.ssh", "/tmp", "/private/var/folders/1"):
        with row(cwd), pytest.raises(InvalidCommand, match="not within the reach"):
            seatbelt(Reach(), cwd)
    assert seatbelt(Reach(read=("/", "/tmp")), "/tmp")


def test_job_object_enforces_limits_alone() -> None:
    """The decision is tested here; `tests/test_windows.py` has the Job Object itself."""
    reach = replace(Reach.preset("none"), limits=Limits(memory=5, processes=2**40, cpu=7))
    sandbox = compile_reach(reach, Facts(system="Windows"), LocalPlaces())
    spawn = Spawn(argv=("cmd",), cwd="C:\\")
    assert sandbox.wrap(spawn).job_limits == (5, 2**32 - 1, 7)
    lower = narrow(sandbox, replace(reach, limits=Limits(cpu=3)), directory="/", home="/")
    assert lower.wrap(spawn).job_limits == (5, 2**32 - 1, 3)
    with pytest.raises(ReachUnavailable, match="network"):
        narrow(sandbox, replace(reach, network=False), directory="/", home="/")


def test_lowest_takes_the_lower_of_two_limits() -> None:
    lowest = Limits(memory=5, cpu=7).lowest(Limits(memory=6, processes=3))
    assert lowest == Limits(memory=5, processes=3, cpu=7)


def test_double_slashes_count_as_one() -> None:
    assert Reach(read=("//",)).read == ("/",)
    assert Reach(write=("//srv//x/",)).resolved("/", "/").write == ("/srv/x",)
    assert not Reach(write=("//",), hide=(), protect=(), network=True).confines


def test_names_of_hosts_are_narrowed_by_name() -> None:
    outer = Reach(network=("a.example", "b.example"))
    assert Reach(network=("a.example",)).within(outer).network == ("a.example",)
    assert Reach().within(outer).network is False
    for wider in (Reach(network=True), Reach(network=("c.example",))):
        with pytest.raises(InvalidCommand, match="network is more"):
            wider.within(outer)


def test_preset_none_confines_nothing() -> None:
    spawn = Spawn(argv=("/bin/true",), cwd="/")
    assert compile_reach(Reach.preset("none"), replace(FACTS, bwrap=None), LocalPlaces()) is NONE
    assert NONE.wrap(spawn) is spawn
    with pytest.raises(InvalidCommand, match="no reach to narrow"):
        narrow(NONE, Reach.preset("workspace"), directory="/", home="/")


class Nice:
    """A custom sandbox of a caller."""

    def wrap(self, spawn: Spawn) -> Spawn:
        """Run the program with a variable that marks the sandbox."""
        return replace(spawn, argv=("/usr/bin/env", "BEHIND=own", *spawn.argv))


async def test_custom_sandbox_wraps_every_command(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, reach=Nice()) as env:
        assert (await env.run("echo $BEHIND")).output.text == "own\n"
        async with env.session() as session:
            assert (await session.run("echo $BEHIND")).output.text == "own\n"


def test_incomplete_answer_of_a_host_is_read() -> None:
    assert read_facts(b"") == Facts(system="", uid=-1)
    facts = read_facts(
        b"system Linux\nuid x\nlandlock 4294967296000\ncannot user \x1b[31mno\nbwrap /x\nversion bubblewrap 0.11.0\nsetuid 1\n"
        b"profile docker-default (enforce)\n"
    )
    assert (facts.version, facts.setuid, facts.profile) == ("0.11.0", True, "docker-default")
    assert not read_facts(b"profile unconfined\n").profile
    assert "\x1b" not in facts.cannot["user"]
    assert question("python3").argv[0] == "/bin/sh"


EXPLAINED = {
    "touch: cannot touch '/etc/x': Read-only file system": "write /etc/x",
    "bash: /srv/other: Read-only file system": "write /srv/other",
    "cat: /home/x/.ssh/id: No such file or directory": "hides /home/x/.ssh/id",
    "OSError: [Errno 101] Network is unreachable": "network=True",
    "curl: (6) Could not resolve host: example.org": "network=True",
    "bash: .git/hooks/x: Read-only file system": "write in it",
}


def test_refusal_is_explained_with_the_missing_permission() -> None:
    reach = Reach.preset("workspace").resolved("/srv/project", "/home/x")
    for said, why in EXPLAINED.items():
        with row(said):
            explained = explain(f"before\n{said}\n", reach, "/home/x")
            assert why in explained or explained.startswith("The sandbox lets commands write /srv/project")
            assert "\n" not in explained
    for said in (
        "",
        "all is well",
        "cat: /srv/project/x: No such file or directory",
        "make: *** [x] Error 1",
    ):
        with row(said):
            assert explain(said, reach, "/home/x") == ""
    assert explain("Network is unreachable", replace(reach, network=True), "/home/x") == ""


async def test_tool_result_explains_sandbox_refusals(world: World, env: Environment) -> None:
    tool = ShellTool(env, approver=approve_all)
    result = await tool({"command": f"touch {world.outside}/new"})
    assert f"[anyshell] The sandbox does not let commands write {world.outside}/new." in result.text
    result = await tool({"command": "cat none"})
    assert "sandbox" not in result.text


async def test_missing_sandbox_is_logged_once(
    world: World, env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    unconfined._warn.cache_clear()
    await ShellTool(env, approver=approve_all)({"command": "true"})
    async with Environment.detect(cwd=world.workspace, reach=Reach.preset("none")) as other:
        await ShellTool(other, approver=approve_all)({"command": "true"})
    assert not caplog.records
    async with Environment.detect(cwd=world.workspace) as other:
        await ShellTool(other, approver=approve_all)({"command": "true"})
        await ShellTool(other, approver=approve_all)({"command": "true"})
    assert [record.name for record in caplog.records] == ["anyshell"]
    assert unconfined.NO_SANDBOX in caplog.text
    assert "--reach workspace" in caplog.text


def test_command_line_takes_a_reach_and_doctor_lists_its_requirements(world: World) -> None:
    def anyshell_(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "anyshell", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=world.workspace)

    text = f"echo x > {world.outside}/kept; echo x > made; kill -9 $$"
    ended = anyshell_("run", "--reach", "workspace", "--", text)
    assert ended.returncode == 128 + 9
    assert "Read-only file system" in ended.stdout + ended.stderr
    assert (world.workspace / "made").exists()
    assert anyshell_("run", "--reach", "read-only", "--", "echo x > more").returncode != 0
    ended = anyshell_("fleet", "--hosts", "local", "--reach", "workspace", "--", text)
    assert ended.returncode == 1
    assert "Read-only file system" in ended.stdout
    params = json.dumps({"command": text})
    ended = anyshell_("call", "--approve-all", "--reach", "workspace", params)
    assert "The sandbox does not let commands write" in json.loads(ended.stdout)["text"]
    assert anyshell_("run", "--reach", "none", "--", "echo x > more").returncode == 0
    findings = json.loads(anyshell_("doctor", "--json").stdout)["findings"]
    told = {each["name"]: each for each in findings if each["topic"] == "reach"}
    assert told["sandbox"]["verdict"] == "ok"
    assert {"bubblewrap", "namespaces", "Landlock", "kernel", "cgroup v2"} <= told.keys()


def test_places_of_this_machine(tmp_path: Path) -> None:
    places = LocalPlaces()
    assert places.kind(str(tmp_path)) == "directory"
    assert places.kind(f"{tmp_path}/none") == ""
    with socket.socket(socket.AF_UNIX) as server:
        path = f"/tmp/anyshell-{os.getpid()}-{threading.get_ident()}"
        server.bind(path)
        server.listen()
        assert path in places.sockets()
    os.unlink(path)
    assert path not in places.sockets()
    assert shutil.which("sh") is not None


@pytest.mark.timeout(300)  # the test repeats all tests of this file
def test_an_ordinary_user_is_confined_like_root(tmp_path: Path) -> None:
    """All tests above again, as a user without files and rights."""
    once_more_as_an_ordinary_user(
        __file__,
        "not an_ordinary_user and not command_line and not vanish",
        tmp_path,
    )
