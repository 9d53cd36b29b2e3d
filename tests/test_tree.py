"""The members of a command: one table of processes, and every reader finds the members that it can see."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import psutil
import pytest

assert sys.platform != "win32"  # else mypy checks the imports below on every platform

from anyshell.backends.local.posix.descendants import DescendantTree
from anyshell.backends.ssh.posix.look import Sample, parse
from anyshell.backends.ssh.posix.processes import Processes, SSHTree
from anyshell.backends.ssh.posix.watcher import Answer
from anyshell.backends.tree import TAG_BITS, UNLIMITED, Tag
from anyshell.shells import detached

from .test_ssh_watcher import MARK, TAG, TOKEN, Host, surroundings, wait_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from anyshell.backends.ssh.posix.watcher import Watcher

pytestmark = pytest.mark.anyio

LINUX_ALONE = pytest.mark.skipif(
    sys.platform != "linux", reason="limits and variables are shown by Linux alone"
)

OWN = (f"{MARK}2a", "ANYSHELL_JOB_0123456789ab")
"""The marks of the command: the mark of its tree, and that of its job."""

OTHER = (f"{MARK}2b", "ANYSHELL_JOB_0123456789ac")
LONGER = (f"{MARK}2a_1", "ANYSHELL_JOB_0123456789abc")
OTHER_TAG = TAG + (1 << TAG_BITS)


@dataclass(frozen=True)
class Row:
    """A process of the table.

    Attributes:
        signs: The signs by which a process is known to be the command's, besides descent; a reader of any of these finds it.
        parent: Another process of the table, or one that has ended.
        apart: Whether the process leads its own group, or its own session and so its own group.
        limit: The soft limit on file locks.
        marks: The names of the process's variables.
    """

    signs: frozenset[str] = frozenset()
    parent: str = ""
    apart: str = "session"
    limit: int = UNLIMITED
    marks: tuple[str, ...] = ()


def signs(*names: str) -> frozenset[str]:
    return frozenset(names)


TABLE: Mapping[str, Row] = {
    "leader": Row(signs("group", "session", "tag", "mark"), limit=TAG, marks=OWN),
    "child": Row(signs("group", "session", "tag", "mark"), "leader", "", TAG, OWN),
    "cleared, in the group": Row(signs("group", "session"), apart=""),
    "cleared, in a group of its own": Row(signs("session"), apart="group"),
    "cleared child in a session of its own": Row(parent="leader"),
    "tagged": Row(signs("tag"), limit=TAG),
    "tagged inside": Row(signs("tag of an anyshell inside"), limit=TAG | 5),
    "marked": Row(signs("mark"), marks=OWN),
    "marked twice": Row(signs("mark"), marks=(*OTHER, *OWN)),
    "marked, of another tag": Row(signs("mark beside a tag"), limit=OTHER_TAG, marks=OWN),
    "cleared child of a tagged one": Row(parent="tagged"),
    "child of that": Row(parent="cleared child of a tagged one"),
    "cleared child of a marked one": Row(parent="marked"),
    "another command's": Row(limit=OTHER_TAG, marks=OTHER),
    "child of another command's": Row(parent="another command's", apart="", limit=OTHER_TAG, marks=OTHER),
    "of a longer mark": Row(marks=LONGER),
    "of a small limit": Row(limit=1),
    "of no command": Row(),
}
"""Parents first. An ended child of the leader started each process that has no parent here."""

PROGRAM = """
import json, os, resource, sys
rows, sleep, told = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.set_inheritable(told, False)  # its end says that each has become what it is

def become(name):
    row = rows[name]
    if name != "leader" and row["apart"]:
        os.setsid() if row["apart"] == "session" else os.setpgid(0, 0)
    if sys.platform == "linux":
        resource.setrlimit(10, (row["limit"], resource.RLIM_INFINITY))
    for other, each in rows.items():
        if other != "leader" and (each["parent"] or "leader") == name:
            pid = os.fork()
            if pid == 0:
                if not each["parent"] and os.fork():
                    os._exit(0)
                become(other)
            if not each["parent"]:
                os.waitpid(pid, 0)
    os.write(told, f"{os.getpid()} {name}\\n".encode())
    os.execve(sleep, ["sleep", "300"], dict.fromkeys(row["marks"], "1"))

become("leader")
"""


@pytest.fixture(scope="module")
def pids() -> Iterator[Mapping[str, int]]:
    """The processes of the table."""
    rows = json.dumps({name: asdict(row) | {"signs": None} for name, row in TABLE.items()})
    told, tell = os.pipe()
    words = [sys.executable, "-c", PROGRAM, rows, shutil.which("sleep") or "", str(tell)]
    with subprocess.Popen(words, start_new_session=True, pass_fds=[tell], stdin=subprocess.DEVNULL) as leader:
        os.close(tell)
        with open(told, encoding="utf-8") as lines:
            found = {name: int(pid) for pid, name in (line.rstrip("\n").split(" ", 1) for line in lines)}
        try:
            assert found.keys() == TABLE.keys()
            yield found
        finally:
            for pid in (*found.values(), leader.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def members(read: Collection[str]) -> set[str]:
    """The rows of the table that a reader of these signs finds; one sign is descent."""
    found: set[str] = set()
    for name, row in TABLE.items():
        if row.signs & set(read) or ("descent" in read and row.parent in found):
            found.add(name)
    return found


def named(found: Collection[int], pids: Mapping[str, int]) -> set[str]:
    assert os.getpid() not in found
    return {name for name, pid in pids.items() if pid in found}


NUMBERS = {"group", "session"}
"""The signs that are worthless once the leader's pid may belong to another process."""

ALL = {*NUMBERS, "tag", "tag of an anyshell inside", "mark", "mark beside a tag", "descent"}


@LINUX_ALONE
@pytest.mark.parametrize("numbered", [True, False])
async def test_linux_finds_the_members_of_the_table(pids: Mapping[str, int], numbered: bool) -> None:
    if sys.platform == "linux":  # type checkers skip this part on other systems
        from anyshell.backends.local.posix.linux.scan import ProcessScan
        from anyshell.backends.local.posix.linux.tree import LinuxTree

        tree = LinuxTree(
            leader=pids["leader"] if numbered else 0,
            since=0,
            mark=OWN[0].encode(),
            tag=Tag(TAG, TAG_BITS),
            life="pipe:[0]",
            pipes=["pipe:[0]"],
            scan=ProcessScan(),
        )
        found = {member.pid for member in await tree.members()}
        assert named(found, pids) == members(ALL if numbered else ALL - NUMBERS)


async def test_other_posix_finds_the_members_of_the_table(pids: Mapping[str, int]) -> None:
    tree = DescendantTree(pids["leader"])
    try:
        found = {member.pid for member in await tree.members()}
    finally:
        tree.close()
    assert named(found, pids) == members({*NUMBERS, "descent"})


async def test_descendants_of_earlier_commands_are_not_members() -> None:
    """If descent is the only sign, the group of the shell makes no members, at any depth."""
    text = "exec 3<&0; (read _ <&3; (sh -c 'sleep 300; :'; :); :) & wait"
    with subprocess.Popen(
        ["bash", "-c", text], start_new_session=True, stdin=subprocess.PIPE, bufsize=0
    ) as shell:
        try:
            assert shell.stdin is not None
            leader = psutil.Process(shell.pid)
            wait_for(lambda: len(leader.children()) == 1)
            time.sleep(0.1)  # starts are counted in ticks of 10 ms
            shell.stdin.write(b"\n")
            wait_for(lambda: len(leader.children(recursive=True)) == 4)
            young = leader.children(recursive=True)[1:]
            tree = DescendantTree(shell.pid, shell=shell.pid, since=min(each.create_time() for each in young))
            assert await tree.members() == []
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def asking(host: Host) -> Processes:
    class Asking:
        async def ask(self, question: str, asked: object = None) -> Answer:
            return Answer(tuple(host.ask(question)), 0.0, 0.0, 0.0)

    return Processes(cast("Watcher", Asking()), 9)


@LINUX_ALONE
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("kind", ["dash", "bash", "busybox", "without /proc"])
async def test_ssh_finds_the_members_of_the_table(
    pids: Mapping[str, int], tmp_path: Path, kind: str, numbered: bool
) -> None:
    """Variables are read only for processes without a tag: a tag already decides whether a process is the command's."""
    host = Host(*surroundings(kind, tmp_path))
    tree = SSHTree(
        asking(host),
        TOKEN,
        OWN[0],
        TAG,
        since=0.0,
        after=Sample(),
        leader=pids["leader"] if numbered else None,
        begun=True,
    )
    found = {member.pid for member in await tree.members()}
    host.close()
    # ps(1) shows no sessions.
    read = {"group", "descent"} if kind == "without /proc" else ALL - {"mark beside a tag"}
    assert named(found, pids) == members(read if numbered else read - NUMBERS)


@LINUX_ALONE
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("kind", ["dash", "bash", "busybox"])
async def test_sweep_finds_the_members_of_the_table(
    pids: Mapping[str, int], tmp_path: Path, kind: str, numbered: bool
) -> None:
    """For a host where no program can be started: the shell alone compares limits as texts, and reads no variables."""
    host = Host(*surroundings(kind, tmp_path))
    place = host.ask("ping")[0].split()[1]
    found = parse(host.ask(f"sweep 0 0 {TAG} {pids['leader'] if numbered else 'none'} {place}")).seen
    host.close()
    read = {*NUMBERS, "tag"}
    assert named({seen.pid for seen in found}, pids) == members(read if numbered else read - NUMBERS)


@LINUX_ALONE
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("kind", ["dash", "bash", "busybox"])
async def test_jobs_find_the_members_of_the_table(
    pids: Mapping[str, int], tmp_path: Path, kind: str, numbered: bool
) -> None:
    """A job has no tag: a process with a cleared environment is known by its session or its parent alone."""
    began = int(Path(f"/proc/{pids['leader']}/stat").read_text().rpartition(")")[2].split()[19])
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    id_ = OWN[1].removeprefix("ANYSHELL_JOB_")
    shell, env = surroundings(kind, tmp_path)
    job = tmp_path / "jobs" / id_
    job.mkdir(parents=True)
    # If the record names another process than the present one, the number is no sign.
    since = began if numbered else began - 1
    (job / "record").write_text(f"{pids['leader']} {since} {pids['leader']} {since} {boot} 1\n")
    words = detached.look("signal", "0", id_, directory=str(tmp_path / "jobs"))
    said = subprocess.run([*shell, *words[1:]], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {int(line.split()[1]) for line in said.splitlines() if line.startswith("process ")}
    read = {"session", "mark", "mark beside a tag", "descent"}
    assert named(found, pids) == members(read if numbered else read - NUMBERS)
