"""The configuration of git on another host, found in the same way as on this machine."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from anyshell import Approved, Environment, Policy, ShellTool
from anyshell.policy.rules import LocalFacts
from anyshell.tool.git import FILE_ROUNDS, MOST_FILES, git_runs
from anyshell.tool.verdicts import Verdicts

from .conftest import missing, open_to_all
from .test_policy_rules import CONFIGURATIONS, repository
from .test_tool_policy import Person

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from .ssh_server import Server

    Ask = Callable[[tuple[str, ...]], Awaitable[bytes | None]]

assert sys.platform != "win32"

pytestmark = pytest.mark.anyio

EVIL = "[core]\nfsmonitor = evil\n"

AT_ONCE = 5

SYSTEM = set(LocalFacts({"HOME": "/nonexistent"}).git_runs("/") or ())
"""The keys of this machine's own configuration."""


class Host:
    """This machine, asked by one of its shells like another host.

    Attributes:
        rounds: Number of questions.
    """

    def __init__(
        self, home: Path, shell: tuple[str, ...] = ("/bin/sh",), variables: Mapping[str, str] | None = None
    ) -> None:
        self._shell = shell
        self._environ = {"PATH": os.environ["PATH"], "HOME": str(home), **(variables or {})}
        self.rounds = 0

    async def ask(self, words: tuple[str, ...]) -> bytes | None:
        self.rounds += 1
        done = subprocess.run(
            (*self._shell, *words), env=self._environ, cwd="/", capture_output=True, check=False, timeout=20
        )
        assert not done.stderr
        return done.stdout

    async def agrees(self, directory: Path) -> tuple[str, ...] | None:
        """The keys that the host reports, which must equal those that this machine finds."""
        told = await git_runs(str(directory), self.ask)
        assert told == LocalFacts(self._environ).git_runs(str(directory))
        return told and tuple(key for key in told if key not in SYSTEM)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "home").mkdir()
    return Host(tmp_path / "home")


def configurations(top: Path) -> list[Path]:
    """A repository for each of the table's configurations."""
    made = []
    for number, (config, _) in enumerate(CONFIGURATIONS):
        git = repository(top / f"of {number}\n$(x)")
        (git / "config").write_bytes(config.encode())
        (git / "more").write_text("[core]\npager = evil\n")
        made.append(git.parent)
    return made


def hostile(top: Path) -> list[Path]:
    """Repositories with misleading files."""
    made = []

    def new(name: str, config: str = "") -> Path:
        git = repository(top / name, config)
        made.append(git.parent)
        return git

    (top / "evil").write_text(EVIL)
    new("plain", "[core]\n\tbare = false\n")
    new("evil config", EVIL)
    new("no end of line", EVIL[:-1])
    (new("nul") / "config").write_bytes(b"[core]\nx = 1\0\nfsmonitor = evil\n")
    (new("control") / "config").write_bytes(b"[core]\nx = 1\1\n")
    (new("latin") / "config").write_bytes(b'[user]\nname = "J\xfcrgen \xff\xfe"\n')
    (new("latin evil") / "config").write_bytes(b"[user]\nname = \xe0\xff\n" + EVIL.encode())
    (new("records") / "config").write_bytes(b"[a]\nb = 1\n\0/etc/gitconfig\0f\0\0" + EVIL.encode())
    new("include by a path", f"[include]\npath = {top}/evil\n")
    new("include upwards", "[include]\npath = ../../evil\n")
    new("includes itself", "[include]\npath = ../.git/config\n[include]\npath = ./config\n")
    new("includes what is not there", "[include]\npath = nothing/at/all\n")
    new("includes a directory", "[include]\npath = hooks\n")
    new("includes below a file", "[include]\npath = config/x\n")
    new("includes a device", "[include]\npath = /dev/zero\n")
    new("includes home", "[include]\npath = ~/.evil\n")
    new("includes many", "".join(f"[include]\npath = {number}\n" for number in range(200)))
    for number in range(9):
        (made[-1] / f".git/{number}").write_text("[x]\ny = 1\n")
    chain = new("chain", "[include]\npath = 1\n")
    for number in range(1, 9):
        (chain / str(number)).write_text(f"[include]\npath = {number + 1}\n")
    git = new("link to a config")
    (git / "config").unlink()
    (git / "config").symlink_to(top / "evil")
    git = new("link that leads nowhere")
    (git / "config").unlink()
    (git / "config").symlink_to("nowhere")
    git = new("circle")
    (git / "config").unlink()
    (git / "config").symlink_to("config")
    git = new("pipe")
    (git / "config").unlink()
    os.mkfifo(git / "config")
    new("too large", "#" * 300_000)
    (new("as large as may be") / "config").write_bytes(b"#" * (256 * 1024 - 1) + b"\n")
    hooks = new("hooks") / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", ".hidden", "a b\nc*", "x.sample"):
        (hooks / name).touch()
    (hooks / "nowhere").symlink_to("nothing")
    for name, index in {
        "submodule": b"DIRC" + bytes(9) + b"\0\0\xe0\0" + bytes(9),
        "index": b"DIRC" + bytes(range(256)) * 99 + b"\0\0\x81\xa4\0\0\2\0",
        "newlines": b"DIRC\n\0\n\0\xe0\n\0",
    }.items():
        (new(name) / "index").write_bytes(index)
    (new("shared") / "sharedindex.0").touch()
    for name, text in {
        "gitdir": f"gitdir: {top}/evil config/.git\n",
        "gitdir upwards": "gitdir: ../evil config/.git",
        "gitdir of two lines": f"gitdir: {top}/plain/.git\nx\n",
        "gitdir with a NUL": f"gitdir: {top}/plain/.git\0",
        "gitdir with CR": f"gitdir: {top}/evil config/.git\r\n",
        "gitdir to nothing": "gitdir: /no/such/place\n",
        "no gitdir": "x",
    }.items():
        (top / name).mkdir()
        (top / name / ".git").write_bytes(text.encode())
        made.append(top / name)
    (top / "linked").mkdir()
    (top / "linked/.git").symlink_to(top / "evil config/.git")
    (top / "way").symlink_to(top / "evil config")
    (top / "below").symlink_to(top / "evil config/a/b")
    made += [top / "linked", top / "way", top / "below", top / "evil config/a/b", top / "not/there"]
    tree = top / "evil config/.git/worktrees/tree"
    tree.mkdir(parents=True)
    (tree / "commondir").write_text("../..\r\n", newline="")
    (tree / "config.worktree").write_text("[core]\npager = x\n")
    work = top / "tree/sub"
    work.mkdir(parents=True)
    (top / "tree/.git").write_text(f"gitdir: {tree}\n")
    made.append(work)
    for name, common in {
        "common": "../../evil config/.git",
        "common of two lines": "..\n..",
        "nul": "..\0",
    }.items():
        (new(f"commondir {name}") / "commondir").write_bytes(common.encode())
    bare = repository(top / "to be bare", EVIL)
    bare.rename(top / "bare")
    made += [top / "bare", top / "bare/refs"]
    (new("above") / "config").write_text(EVIL)
    inner = repository(made[-1] / "sub")
    made.append(inner.parent)
    return made


SHELLS = {
    "sh": ("/bin/sh",),
    "bash": ("bash", "--posix"),
    "busybox": ("busybox", "sh"),
    "zsh": ("zsh", "--emulate", "sh"),
}


@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS)
async def test_git_configuration_is_read_alike_on_another_host(
    tmp_path: Path, shell: tuple[str, ...]
) -> None:
    if shutil.which(shell[0]) is None:
        missing(shell[0], f"install {shell[0]}")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".evil").write_text("[alias]\nst = !evil\n")
    host = Host(home, shell)
    for directory, (_, expected) in zip(configurations(tmp_path / "table"), CONFIGURATIONS, strict=True):
        assert await host.agrees(directory) == expected
    for directory in hostile(tmp_path):
        told = await git_runs(str(directory), host.ask)
        known = LocalFacts(host._environ).git_runs(str(directory))
        # The host may know less of a dangling link, and of files included in many rounds.
        assert told == known or (told is None and directory.name in {"link that leads nowhere", "chain"})


async def test_plain_repository_takes_one_round_and_a_worktree_few_rounds(tmp_path: Path, host: Host) -> None:
    git = repository(tmp_path / "plain", "[core]\nbare = false\n")
    assert await host.agrees(git.parent) == ()
    assert host.rounds == 1
    tree = git / "worktrees/tree"
    tree.mkdir(parents=True)
    (tree / "commondir").write_text("../..\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").write_text(f"gitdir: {tree}\n")
    host.rounds = 0
    assert await host.agrees(tmp_path / "tree") == ()
    assert host.rounds <= 3


async def test_configuration_of_the_user_and_variables_count(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/config").write_text("[core]\neditor = vi\n")
    (home / ".gitconfig").write_text("[core]\npager = less\n")
    other = tmp_path / "other"
    (other / "git").mkdir(parents=True)
    (other / "git/config").write_text(EVIL)
    top = tmp_path / "top"
    repository(top)
    assert await Host(home).agrees(top) == ("core.editor", "core.pager")
    assert await Host(home, variables={"XDG_CONFIG_HOME": str(other)}).agrees(top) == (
        "core.fsmonitor",
        "core.pager",
    )
    assert await git_runs(str(top), Host(home, variables={"XDG_CONFIG_HOME": "other"}).ask) is None
    for name, value in (
        ("GIT_PAGER", "cat"),
        ("GIT_PAGER", "cat\nevil"),
        ("GIT_PAGER", "$(evil)'`\""),
        ("GIT_EXTERNAL_DIFF", "evil\nGIT_X=y"),
        ("GIT_CONFIG_KEY_0", "core.fsMonitor"),
        ("OTHER", "x\nGIT_DIR=/evil\nGIT_X$(evil)=1"),
        ("GIT_AUTHOR_NAME", "\udcff=\n"),
    ):
        assert await Host(home, variables={name: value}).agrees(top) is not None


async def test_malformed_answer_is_unknown(tmp_path: Path, host: Host) -> None:
    repository(tmp_path / "top")
    whole = await host.ask(())
    assert whole == b""
    for answer in (
        None,
        b"",
        b"\0",
        b"/home\0\0",
        b"/home\0\0\0",
        b"/home\0\0GIT\0\0/\0",
        b"home\0\0\0/\0",
        b"x" * 99,
    ):

        async def said(_: tuple[str, ...], answer: bytes | None = answer) -> bytes | None:
            return answer

        assert await git_runs("/", said) is None
    asked: list[int] = []

    async def never_done(words: tuple[str, ...]) -> bytes | None:
        asked.append(len(words))
        return b"/home\0\0\0/x\0"

    assert await git_runs("/x", never_done) is None
    assert len(asked) == FILE_ROUNDS
    assert max(asked) <= MOST_FILES


async def test_git_over_ssh_is_allowed_if_its_configuration_runs_nothing(
    tmp_path: Path, ssh_host: Callable[[str], Server]
) -> None:
    """Regression test: every command of git over SSH was asked about."""
    made = [*configurations(tmp_path / "table"), *hostile(tmp_path)]
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(("chmod", "-R", "a+rX", tmp_path), check=False)
    open_to_all(tmp_path)
    person = Person(Approved())
    policy = Policy.preset("read-only")
    async with Environment.detect(
        ssh_host("openssh as a user").options(), shell="bash", cwd=tmp_path, policy=policy
    ) as env:
        verdicts = Verdicts(policy, env)

        async def at_home(words: tuple[str, ...]) -> bytes | None:
            option, script, *rest = words
            return await verdicts._answer((option, f"HOME={shlex.quote(str(home))}\n{script}", *rest))

        facts = LocalFacts({"HOME": str(home)})
        for at in range(0, len(made), AT_ONCE):
            some = made[at : at + AT_ONCE]
            for directory, told in zip(
                some, await asyncio.gather(*(git_runs(str(each), at_home) for each in some)), strict=True
            ):
                assert told == facts.git_runs(str(directory)) or (
                    told is None and directory.name in {"link that leads nowhere", "chain"}
                ), directory
        tool = ShellTool(env, approver=person)
        for name, asked in (("plain", 0), ("evil config", 1), ("tree", 2), ("nul", 2)):
            before = len(person.asked)
            await tool({"command": "git status", "cwd": str(tmp_path / name)})
            await tool({"command": f"cd {shlex.quote(str(tmp_path / name))} && git log -1"})
            assert (name, len(person.asked) - before) == (name, asked)
