"""File changes of a command, compared with the actual changes, for every way to run a command."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import anyshell
from anyshell import Environment, Fleet, InvalidCommand, Outcome, ShellTool, Terminal, approve_all
from anyshell._runner import effects as runner_effects
from anyshell._runner.effects import Looks
from anyshell.effects import diff
from anyshell.types import Scan

from .cli_program import anyshell as anyshell_program
from .conftest import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anyshell import Effects
    from anyshell.abc import Backend, HostInfo, Spawn

assert sys.platform != "win32"  # on other systems mypy skips the code below

NAMES = ("a", "b c", "é", "n\nl", "by\udcffte", "-x", "*", "~", 'q"', "node_modules", "t\tb")


class Seen(NamedTuple):
    """The actual state of a file."""

    kind: int
    mode: int
    content: bytes
    inode: int
    changed: int


def truth(root: Path) -> dict[str, Seen]:
    """Every file below a directory, except files that a scan skips, read by other means than those of a scan."""
    found = {}
    for above, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = os.path.join(above, name)
            facts = os.lstat(path)
            content = b""
            if stat.S_ISREG(facts.st_mode):
                content = Path(path).read_bytes()
            elif stat.S_ISLNK(facts.st_mode):
                content = os.fsencode(os.readlink(path))
            mode = stat.S_IMODE(facts.st_mode)
            found[os.path.relpath(path, root)] = Seen(
                stat.S_IFMT(facts.st_mode), mode, content, facts.st_ino, facts.st_ctime_ns
            )
        directories[:] = [name for name in directories if name != "node_modules"]
    return found


Step = tuple[str, str, str, int]


def perform(root: Path, steps: list[Step]) -> None:
    """Perform the steps that are possible."""
    for verb, first, second, number in steps:
        one, two = root / first, root / second
        if one.is_fifo() and verb in ("write", "append", "same", "sparse"):
            continue  # a write would wait for a reader
        with suppress(OSError):
            match verb:
                case "write":
                    one.write_bytes(b"line\n" * (number % 7) + b"end" * (number % 2))
                case "append":
                    with open(one, "ab") as file:
                        file.write(b"\0\xff" if number == 3 else b"more\n")
                case "same":  # other bytes of the same number, with the old times
                    before = one.stat()
                    one.write_bytes(bytes(byte ^ 1 for byte in one.read_bytes()))
                    os.utime(one, ns=(before.st_atime_ns, before.st_mtime_ns))
                case "sparse":
                    with open(one, "ab") as file:
                        file.truncate(number * 100_000)
                case "rename":
                    os.rename(one, two)
                case "link":
                    os.link(one, two)
                case "symlink":
                    os.symlink(second, one)
                case "mkdir":
                    one.mkdir()
                case "replace":
                    if one.is_dir() and not one.is_symlink():
                        shutil.rmtree(one)
                        one.mkdir()
                case "remove":
                    shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()
                case "mode":
                    os.chmod(one, 0o700 | number)
                case "times":
                    os.utime(one, ns=(number, number))
                case "fifo":
                    os.mkfifo(one)


VERBS = [
    "write",
    "append",
    "same",
    "sparse",
    "rename",
    "link",
    "symlink",
    "mkdir",
    "replace",
    "remove",
    "mode",
    "times",
    "fifo",
]
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
steps = st.lists(
    st.tuples(st.sampled_from([*VERBS, "mkdir", "write"]), paths, paths, st.integers(0, 7)), max_size=25
)


class Shell:
    """A shell of this machine as a remote host, so that it is scanned like a remote host."""

    def __init__(self, backend: Backend, *, path: str | None = None) -> None:
        self._backend = backend
        self._path = path

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    async def spawn(self, spawn: Spawn) -> object:
        env = {} if self._path is None else {"PATH": self._path}
        return await self._backend.spawn(replace(spawn, env=env))


@pytest.fixture(scope="module")
def busybox() -> Iterator[str]:
    """A PATH with only the programs of busybox."""
    if (program := shutil.which("busybox")) is None:
        missing("busybox", "apt-get install busybox")
    with tempfile.TemporaryDirectory() as directory:
        for name in ("find", "stat", "printf"):
            os.symlink(program, f"{directory}/{name}")
        yield directory


async def looked_at(
    root: Path, between: Callable[[], object], way: str, path: str | None, scan: Scan
) -> Effects:
    async with Environment.detect(cwd=root) as env:
        info: HostInfo = replace(env.info, is_this_machine=way == "here")
        backend = env.runner.backend if way == "here" else Shell(env.runner.backend, path=path)
        looks = Looks(backend, info, scan, str(root))  # type: ignore[arg-type] # it is a backend by what it hands on
        await looks.begin()
        between()
        effects = (await looks.end(Outcome(status="exited", exit_code=0))).effects
    assert effects is not None
    return effects


def check(effects: Effects, before: Mapping[str, Seen], after: Mapping[str, Seen]) -> None:
    """Compare effects with the actual changes."""
    assert effects.complete, effects.incomplete
    renamed: dict[str, str] = {}
    for moved in effects.renamed:
        assert moved.path_before is not None
        old = moved.path_before
        renamed[moved.path] = old
        for path in after:
            if path.startswith(f"{moved.path}/") and path not in before:
                its_old = old + path.removeprefix(moved.path)
                same = (
                    its_old in before and its_old not in after and before[its_old].inode == after[path].inode
                )
                if same and before[its_old].mode == after[path].mode:
                    renamed.setdefault(path, its_old)
    for path, old in renamed.items():
        assert before[old].inode == after[path].inode
        assert (before[old].kind, before[old].content) == (after[path].kind, after[path].content)
    created = {effect.path for effect in effects.created}
    deleted = {effect.path for effect in effects.deleted}
    changed = {effect.path: effect for effect in effects.changed}
    assert created | renamed.keys() == after.keys() - before.keys()
    assert deleted | set(renamed.values()) == before.keys() - after.keys()
    assert not created & renamed.keys()
    assert not deleted & set(renamed.values())
    for path in before.keys() & after.keys():
        then, now = before[path], after[path]
        if (then.kind, then.mode, then.content) != (now.kind, now.mode, now.content):
            assert path in changed
        if then == now:
            assert path not in changed
    assert changed.keys() <= before.keys() & after.keys()
    for effect in (*effects.created, *effects.changed, *effects.renamed):
        if effect.kind == "file":
            assert effect.size == len(after[effect.path].content)
        assert effect.mode == after[effect.path].mode
    for effect in (*effects.changed, *effects.deleted):
        assert effect.mode_before == before[effect.path].mode
    there = {path for path in (*before, *after) if path.rpartition("/")[2] == "node_modules"}
    kinds = {path: {seen[path].kind for seen in (before, after) if path in seen} for path in there}
    assert set(effects.skipped) == {path for path in there if stat.S_IFDIR in kinds[path]}


def check_diff(effects: Effects, root: Path, kept: Path) -> None:
    """Apply the diff to the former files, by git, and compare the result with the present files."""
    assert effects.diff is not None
    if effects.diff:
        # Not in a repository, also if a parent directory is one; and without fixing whitespace.
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"],
            cwd=kept,
            input=effects.diff.encode("utf-8", "surrogateescape"),
            capture_output=True,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(kept.parent)},
            check=False,
        )
        assert done.returncode == 0, (done.stderr, effects.diff)
    for effect in (*effects.created, *effects.changed):
        if effect.kind == "file" and effect.path not in effects.without_diff:
            applied, there = kept / effect.path, root / effect.path
            assert applied.read_bytes() == there.read_bytes()
            assert bool(applied.stat().st_mode & 0o100) == bool(there.stat().st_mode & 0o100)
    for effect in effects.deleted:
        if effect.kind == "file" and effect.path not in effects.without_diff:
            assert not (kept / effect.path).exists()


@pytest.mark.parametrize("way", ["here", "find", "busybox"])
@settings(max_examples=40)
@given(before=steps, between=steps)
@example(before=[("write", "a", "", 1)], between=[("same", "a", "", 0)])
@example(before=[("mkdir", "a", "", 0), ("write", "a/é", "", 3)], between=[("rename", "a", "b c", 0)])
@example(before=[("mkdir", "a", "", 0), ("mkdir", "a/a", "", 0)], between=[("replace", "a", "", 0)])
@example(before=[("write", "a", "", 1)], between=[("link", "a", "é", 0), ("remove", "a", "", 0)])
@example(before=[("write", "a", "", 1)], between=[("remove", "a", "", 0), ("write", "é", "", 1)])
@example(before=[("write", "a", "", 0)], between=[("remove", "a", "", 0), ("write", "b c", "", 0)])
@example(
    before=[("mkdir", "a", "", 0), ("write", "a/é", "", 3)],
    between=[("remove", "a", "", 0), ("write", "a", "", 1)],
)
@example(
    before=[("write", "a", "", 3)],
    between=[("remove", "a", "", 0), ("mkdir", "a", "", 0), ("write", "a/a", "", 1)],
)
@example(
    before=[("write", "a", "", 1)],
    between=[("write", "b c", "", 2), ("mode", "b c", "", 0), ("mode", "a", "", 0)],
)
@example(
    before=[("mkdir", "a", "", 0), ("write", "a/é", "", 3)],
    between=[("rename", "a", "b c", 0), ("mode", "b c/é", "", 1), ("times", "b c/é", "", 1)],
)
@example(
    before=[("mkdir", "a", "", 0), ("write", "a/é", "", 3)],
    between=[("rename", "a", "b c", 0), ("mode", "b c/é", "", 1)],
)
def test_effects_match_the_actual_changes(
    way: str, before: list[Step], between: list[Step], request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue("busybox") if way == "busybox" else None
    with tempfile.TemporaryDirectory() as directory:
        root, kept = Path(directory, "root"), Path(directory, "kept")
        root.mkdir()
        perform(root, before)
        then = truth(root)
        shutil.copytree(root, kept, symlinks=True, ignore=_no_regular_file)
        scan = Scan(diff=way == "here")
        effects = asyncio.run(looked_at(root, lambda: perform(root, between), way, path, scan))
        check(effects, then, truth(root))
        if scan.diff:
            check_diff(effects, root, kept)


def _no_regular_file(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if stat.S_ISFIFO(os.lstat(os.path.join(directory, name)).st_mode)]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
@pytest.mark.anyio
async def test_changes_without_an_event_are_reported(tmp_path: Path) -> None:
    """inotify has no event for these changes for a program that watches the directory."""
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    for name in ("linked", "mapped"):
        (root / name).write_bytes(b"old")
    with open(root / "mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:

        def change() -> None:
            os.link(root / "linked", other)
            other.write_bytes(b"new")
            other.unlink()
            memory[:] = b"new"
            memory.flush()

        effects = await looked_at(root, change, "here", None, Scan())
    assert effects.complete
    assert [(each.path, each.content) for each in effects.changed] == [("linked", True), ("mapped", True)]


# By every way to run a command, and on every host.


def paths_of(effects: Effects | None) -> dict[str, list[str]]:
    assert effects is not None
    return {
        what: [effect.path for effect in getattr(effects, what)]
        for what in ("created", "changed", "deleted", "renamed")
        if getattr(effects, what)
    }


@pytest.mark.anyio
async def test_run_reports_file_changes_of_a_command(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "a dir").mkdir(mode=0o777)
    for name in ("old", "gone", "a dir/kept", "mode", "edited"):
        (tmp_path / name).write_text("1\n")
        (tmp_path / name).chmod(0o666)
    os.chmod(tmp_path / "a dir", 0o777)
    before = {each: each.stat().st_uid for each in tmp_path.iterdir()}
    command = "mv old new; rm gone; echo 2 > made; echo 23 > edited; mv 'a dir' dir; mkdir -p node_modules/x"
    outcome = await env.run(command, effects=Scan(diff=True))
    assert (outcome.exit_code, outcome.output.text, len(before)) == (0, "", 5)
    effects = outcome.effects
    assert paths_of(effects) == {
        "created": ["made", "node_modules"],
        "changed": ["edited"],
        "deleted": ["gone"],
        "renamed": ["dir", "new"],
    }
    assert effects is not None
    assert effects.complete
    assert effects.skipped == ("node_modules",)
    (edited,) = effects.changed
    assert (edited.kind, edited.size_before, edited.size, edited.content) == ("file", 2, 3, True)
    assert "--- a/edited\n+++ b/edited\n@@ -1 +1 @@\n-1\n+23\n" in (effects.diff or "")
    assert "a/old" not in (effects.diff or "")
    assert effects.summary() == "2 created, 1 changed, 1 deleted, 2 renamed"
    assert (await env.run("true")).effects is None


@pytest.mark.anyio
async def test_only_given_directories_are_scanned(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "src").mkdir()
    for each in tmp_path.iterdir():
        each.chmod(0o777)
    command = "touch x src/a node_modules/b"
    assert paths_of((await env.run(command, effects=["src/"])).effects) == {"created": ["src/a"]}
    outcome = await env.run("touch y; touch node_modules/c", effects=["node_modules", str(tmp_path / "src")])
    assert paths_of(outcome.effects) == {"created": ["node_modules/c"]}
    outcome = await env.run("touch src/d node_modules/d", effects=Scan(skip=("src/",)))
    assert paths_of(outcome.effects) == {"created": ["node_modules/d"]}
    with pytest.raises(InvalidCommand, match="'/no/such' is not a directory that can be looked at"):
        await env.run("touch z", effects=["/no/such"])
    with pytest.raises(InvalidCommand, match="a list of directories"):
        await env.run("touch z", effects="src")
    assert not (tmp_path / "z").exists()


@pytest.mark.anyio
async def test_removed_directory_is_reported_with_its_contents(env: Environment, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    outcome = await env.run("mkdir -p d/e; touch d/e/f", effects=True)
    assert paths_of(outcome.effects) == {"created": ["d", "d/e", "d/e/f"]}
    outcome = await env.run("rm -r d", effects=["d"])
    assert paths_of(outcome.effects) == {"deleted": ["d/e", "d/e/f"]}
    assert outcome.effects is not None
    assert outcome.effects.complete


@pytest.mark.anyio
async def test_unreadable_files_count_neither_as_deleted_nor_as_created(env: Environment) -> None:
    made = await env.run(
        'd=$(mktemp -d); cd "$d"; mkdir a b; echo 1 > a/x; echo 1 > b/x; chmod 000 a; id -u; pwd'
    )
    uid, directory = made.output.text.split()
    scan = Scan(directory=directory, diff=True)
    try:
        effects = (await env.run("chmod 700 a; chmod 400 b; echo 1 > c", cwd=directory, effects=scan)).effects
        assert effects is not None
        assert paths_of(effects) == {"created": ["c"], "changed": ["a", "b"]}
        assert effects.complete == (uid == "0")
        assert effects.diff is not None
        assert "x" not in effects.diff
        effects = (await env.run("rm c; chmod 000 .", cwd=directory, effects=scan)).effects
        assert effects is not None
        assert paths_of(effects) == ({"deleted": ["c"]} if uid == "0" else {})
        assert effects.complete == (uid == "0")
    finally:
        await env.run(f"chmod 700 {directory} {directory}/*; rm -r {directory}")


@pytest.mark.anyio
async def test_effects_are_incomplete_while_processes_run(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        outcome = await env.run("sleep 300 & touch a", effects=True)
        assert paths_of(outcome.effects) == {"created": ["a"]}
        assert outcome.effects is not None
        assert outcome.effects.incomplete == ("processes of the command still run, and may change more",)
        outcome = await env.run("sleep 1; touch b", effects=True, background_after=0.1)
        assert outcome.effects is not None
        assert not outcome.effects.complete
        assert outcome.job is not None
        ended = await env.jobs.get(outcome.job).wait()
        assert ended is not None
        assert paths_of(ended.effects) == {"created": ["b"]}


@pytest.mark.anyio
async def test_sessions_streams_and_terminals_have_effects(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        async with env.session() as session:
            assert paths_of((await session.run("touch a", effects=True)).effects) == {"created": ["a"]}
        async with env.stream("touch b", effects=True) as events:
            assert [event async for event in events] == []
        assert paths_of(events.outcome.effects) == {"created": ["b"]}
        outcome = await env.run("touch c", effects=True, terminal=Terminal())
        assert paths_of(outcome.effects) == {"created": ["c"]}


@pytest.mark.anyio
async def test_each_command_of_a_session_has_its_own_effects(tmp_path: Path) -> None:
    """Each command is scanned in its turn: changes of the previous or next command do not count as its own."""
    async with Environment.detect(cwd=tmp_path) as env, env.session() as session:
        texts = [f"sleep 0.1; touch {name}" for name in "abc"]
        outcomes = await asyncio.gather(*(session.run(text, effects=True) for text in texts))
        assert [paths_of(outcome.effects) for outcome in outcomes] == [{"created": [name]} for name in "abc"]
        with pytest.raises(InvalidCommand, match="none"):
            await session.run("true", effects=["none"])
        assert (await session.run("echo on")).output.text == "on\n"


def test_blocking_run_scans_the_directory_of_the_command(tmp_path: Path) -> None:
    outcome = anyshell.run("touch a", cwd=tmp_path, effects=True)
    assert paths_of(outcome.effects) == {"created": ["a"]}


@pytest.mark.anyio
async def test_abandoned_scan_reports_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    monkeypatch.setattr(runner_effects, "MOST_FILES", 1)
    async with Environment.detect(cwd=tmp_path) as env:
        outcome = await env.run("rm a", effects=True)
    assert outcome.exit_code == 0
    assert outcome.effects is not None
    assert paths_of(outcome.effects) == {}
    assert outcome.effects.incomplete == (
        "there are too many files, more than 1 files: name fewer directories",
    )
    assert outcome.effects.summary().startswith("no change was seen; not complete: ")


@pytest.mark.anyio
async def test_files_without_a_diff_have_a_reason(tmp_path: Path) -> None:
    command = (
        r"printf 'a\0b' > binary; head -c 70000 /dev/zero > large; seq 3000 > long; ln -s x link; "
        r"printf '\377' > latin; echo x > text; rm gone; touch touched"
    )
    (tmp_path / "touched").touch()
    (tmp_path / "gone").write_bytes(b"x" * 70000)
    async with Environment.detect(cwd=tmp_path) as env:
        effects = (await env.run(command, effects=Scan(diff=True))).effects
    assert effects is not None
    assert effects.without_diff == {
        "binary": "binary",
        "gone": "larger than 64 KiB",
        "large": "larger than 64 KiB",
        "latin": "not UTF-8",
        "link": "not a regular file",
        "long": "more than 2000 lines",
        "touched": "its text is the same",
    }
    assert (
        effects.diff
        == "diff --git a/text b/text\nnew file mode 100644\n--- /dev/null\n+++ b/text\n@@ -0,0 +1 @@\n+x\n"
    )
    assert diff.LARGEST_FILE == 64 * 1024


@pytest.mark.anyio
async def test_reading_for_a_diff_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "old").write_text("1\n")
    monkeypatch.setattr(diff, "LARGEST_KEPT", 5)
    async with Environment.detect(cwd=tmp_path) as env:
        command = "echo 1 > empty; : > old; for i in a b c d; do echo $i > $i; done"
        effects = (await env.run(command, effects=Scan(diff=True))).effects
        assert effects is not None
        assert effects.without_diff == {"d": "not read", "c": "not read", "empty": "not read"}
        assert effects.diff is not None
        assert "-1\n" in effects.diff

        class Slow:
            """Files whose reads never end."""

            stat = env.runner.backend.files.stat

            async def read(self, path: str, *, length: int) -> bytes:
                await asyncio.Event().wait()
                return b""

        class Slowly(Shell):
            files = Slow()

        monkeypatch.setattr(runner_effects, "LOOK_SECONDS", 2)
        looks = Looks(Slowly(env.runner.backend), env.info, Scan(diff=True), str(tmp_path))  # type: ignore[arg-type] # as above
        await looks.begin()
        (tmp_path / "a").unlink()
        found = (await looks.end(Outcome(status="exited", exit_code=0))).effects
    assert found is not None
    assert (found.diff, found.without_diff) == ("", {"a": "not read"})


def test_command_line_prints_effects(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    (tmp_path / "text").write_text("1\n")
    (tmp_path / "text").chmod(0o600)
    command = (
        r"mv old 'ne\033w'; echo 2 >> text; chmod 640 text; mkdir node_modules dir; touch dir/a; echo out"
    )
    command = command.replace(r"\033", "\033")
    done = anyshell_program("run", "--cwd", str(tmp_path), "--diff", "--", command)
    assert (done.returncode, done.stdout) == (0, b"out\n")
    assert done.stderr.decode() == (
        "anyshell: 3 created, 1 changed, 1 renamed\n"
        "  + dir/ (4.0 KiB)\n  + dir/a (0 B)\n  + node_modules/ (4.0 KiB)\n"
        "  ~ text (2 B to 4 B, mode 600 to 640)\n"
        "  > ne\\x1bw (was old)\n"
        "not looked into: node_modules\n"
        "diff --git a/dir/a b/dir/a\nnew file mode 100644\nindex 0000000..e69de29\n"
        "diff --git a/text b/text\n--- a/text\n+++ b/text\n@@ -1 +1,2 @@\n 1\n+2\n"
    )
    done = anyshell_program("run", "--cwd", str(tmp_path), "--effects", "--json", "--", "rm dir/a; ls gone")
    effects = json.loads(done.stdout)["effects"]
    assert [each["path"] for each in effects["deleted"]] == ["dir/a"]
    assert (effects["incomplete"], effects["diff"]) == ([], None)
    for option in ("--pty", "--background"):
        done = anyshell_program("run", "--effects", option, "--", "true")
        assert done.returncode == 2
        assert b"--effects does not go with " + option.encode() in done.stderr


def test_overlapping_roots_are_reported_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    scan = Scan(paths=(".", str(work / "src"), "src", ".."), diff=True)
    effects = anyshell.run("echo one > src/one; echo two > ../two", cwd=work, effects=scan).effects
    assert effects is not None
    assert [each.path for each in effects.created] == [str(tmp_path / "two"), "src/one"]
    assert effects.diff is not None
    assert f"+++ b{tmp_path}/two\n" in effects.diff
    assert [line for line in effects.diff.splitlines() if line.startswith("+++")][1:] == ["+++ b/src/one"]


@pytest.mark.anyio
@pytest.mark.parametrize("session", [False, True])
async def test_tool_result_names_changed_files(session: bool, tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        tool = ShellTool(env, approver=approve_all, session=session, effects=True)
        result = await tool({"command": "mkdir new && cd new && echo x | tee 1 2 3 4 5 6 7 8 9 'a\nb'"})
        assert (
            "[anyshell] Files: created new/, new/1, new/2, new/3, new/4, new/5, new/6, new/7 and 3 more."
            in result.text
        )
        result = await tool({"command": f"cd '{tmp_path}'; echo y > new/1; rm new/2; mv new/3 3"})
        assert "Files: changed new/1; deleted new/2; renamed 3." in result.text
        assert "Files: nothing changed." in (await tool({"command": "ls"})).text
        await tool.aclose()
        assert "Files:" not in (await ShellTool(env, approver=approve_all)({"command": "touch other"})).text


@pytest.mark.anyio
async def test_fleet_reports_effects_of_each_host(tmp_path: Path) -> None:
    async with Fleet(["local"], cwd=tmp_path) as fleet:
        (result,) = [each async for each in fleet.run("echo x > made", effects=True)]
    assert result.outcome is not None
    assert result.outcome.effects is not None
    assert [each.path for each in result.outcome.effects.created] == ["made"]
