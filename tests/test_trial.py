"""A command on trial: the shown effects are those of a direct run, nothing is real before the commit, and a commit is whole."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings

import anyshell
from anyshell import AnyshellError, Environment, InvalidCommand, Reach, run
from anyshell._private import state_directory
from anyshell.errors import CommitConflict, ReachUnavailable
from anyshell.reach import Facts, Sandbox
from anyshell.trial import Trial
from anyshell.types import Control

assert sys.platform == "linux"  # else mypy checks the code below on every platform

from anyshell.trial import commit, layer
from anyshell.trial.files import HeldDirectory

from . import killed_commits
from .conftest import bubblewrap, once_more_as_an_ordinary_user, python_for_all, row
from .processes import living, unique_seconds, wait_living, wait_none
from .test_effects import Step, perform, steps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyshell import Effects

pytestmark = pytest.mark.anyio

PYTHON = python_for_all()

STEPS = """
import errno, os, shutil, stat, subprocess, sys
from contextlib import suppress
from pathlib import Path
rename = os.rename
def move(one, two):
    try:
        rename(one, two)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if os.path.isdir(two):
            os.rmdir(two)
        subprocess.run(["cp", "-a", "-T", "--", one, two], check=True)
        shutil.rmtree(one)
os.rename = move
Step = None
{perform}
perform(Path("."), {steps})
"""
"""A program that performs steps. overlayfs cannot rename a lower directory; the program then does what `mv` does in that case."""


def program(given: list[Step]) -> str:
    # Random parts are the same in both runs, and unset times do not differ.
    text = STEPS.format(perform=inspect.getsource(perform).replace("list[Step]", "list"), steps=ascii(given))
    return f"{PYTHON} -B - <<'THE END'\n{text}\nTHE END"


def truth(root: Path) -> dict[str, object]:
    """Every file below a directory: its kind, mode, content, the time if set, and the other names of the same file."""
    found: dict[str, object] = {}
    same: dict[int, list[str]] = {}
    for above, directories, files in os.walk(os.fsencode(root)):
        for name in (*directories, *files):
            path = os.path.join(above, name)
            at = os.lstat(path)
            content = b""
            if stat.S_ISREG(at.st_mode):
                content = Path(os.fsdecode(path)).read_bytes()
                same.setdefault(at.st_ino, []).append(os.fsdecode(os.path.relpath(path, os.fsencode(root))))
            elif stat.S_ISLNK(at.st_mode):
                content = os.readlink(path)
            time = at.st_mtime_ns if at.st_mtime_ns < 8 and not stat.S_ISDIR(at.st_mode) else None
            found[os.fsdecode(os.path.relpath(path, os.fsencode(root)))] = (at.st_mode, content, time)
    return {**found, "": sorted(sorted(paths) for paths in same.values() if len(paths) > 1)}


@pytest.fixture(autouse=True, scope="module")
def _sandbox() -> None:
    bubblewrap()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub" / "deep").mkdir(parents=True)
    for name in ("a", "b", "sub/x", "sub/deep/y"):
        (root / name).write_text(f"{name}\n")
    return root


@pytest.fixture
async def env(tree: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    async with Environment.detect(cwd=tree) as environment:
        yield environment


@settings(max_examples=30, deadline=None)
@example(
    [("mkdir", "a", "a", 0), ("write", "a/é", "a", 3)], [("replace", "a", "a", 0), ("write", "a/-x", "a", 1)]
)
@example([("mkdir", "a", "a", 0), ("write", "a/é", "a", 3)], [("rename", "a", "*", 0)])
@example([("write", "a", "a", 3)], [("link", "a", "é", 0), ("append", "é", "a", 1)])
@example(
    [("write", "a", "a", 3), ("mkdir", "é", "a", 0)],
    [("remove", "a", "a", 0), ("mkdir", "a", "a", 0), ("remove", "é", "a", 0)],
)
@example(
    [("symlink", "a", "é", 0)], [("remove", "a", "a", 0), ("sparse", "a", "a", 7), ("times", "a", "a", 5)]
)
@given(steps, steps)
def test_trial_and_commit_equal_a_direct_run(before: list[Step], steps: list[Step]) -> None:
    # A file with two names that changes by one name then becomes two files: see the how-to.
    before = [step for step in before if step[0] != "link"]
    with tempfile.TemporaryDirectory() as directory:
        direct, tried = Path(directory, "direct"), Path(directory, "tried")
        for root in (direct, tried):
            root.mkdir()
            perform(root, before)
        text = program(steps)
        then = truth(tried)
        assert run(text, cwd=direct).exit_code == 0

        async def try_it() -> Effects:
            async with Environment.detect(cwd=tried) as env, env.trial(text) as trial:
                assert trial.outcome.exit_code == 0, trial.outcome.output.text
                assert truth(tried) == then
                await trial.commit()
                return trial.effects

        effects = asyncio.run(try_it())
        now = truth(tried)
        assert now == truth(direct)
        assert not list(Path(directory).rglob(".anyshell-*"))
        gone = {each.path for each in effects.deleted} | {each.path_before for each in effects.renamed}
        new = {each.path for each in (*effects.created, *effects.renamed)}
        assert gone >= then.keys() - now.keys()
        assert new >= now.keys() - then.keys()
        assert {each.path for each in effects.changed} | new | gone >= {
            path for path in now.keys() & then.keys() - {""} if now[path] != then[path]
        }


async def test_nothing_is_real_without_a_commit(env: Environment, tree: Path) -> None:
    before = truth(tree)
    async with env.trial("echo more >> a; rm b; rm -r sub; mkdir sub; echo n > sub/new; cat a") as trial:
        assert trial.outcome.output.text == "a\nmore\n"
        assert "+more" in trial.diff
        assert [each.path for each in trial.effects.created] == ["sub/new"]
        assert [each.path for each in trial.effects.deleted] == ["b", "sub/deep", "sub/deep/y", "sub/x"]
        assert trial.outcome.effects is trial.effects
    assert truth(tree) == before
    with pytest.raises(AnyshellError, match="nothing to commit"):
        await trial.commit()


async def test_paths_outside_the_tree_are_not_written(env: Environment, tree: Path) -> None:
    outside = tree.parent / "outside"
    async with env.trial(f"echo x > {outside}; echo x > ../outside; echo kept > a") as trial:
        await trial.commit()
    assert not outside.exists()
    assert (tree / "a").read_text() == "kept\n"


async def test_reach_of_one_trial(tree: Path) -> None:
    async with Environment.detect(cwd=tree, reach=Reach(write=(".", str(tree.parent)))) as env:
        async with env.trial("echo x > ../beside; echo x > new") as trial:
            assert [each.path for each in trial.effects.created] == ["new"]
        async with env.trial(
            "echo x > new; echo y > sub/new", reach=Reach(read=("/", "."), write=("sub",))
        ) as trial:
            assert [each.path for each in trial.effects.created] == ["sub/new"]
        with pytest.raises(InvalidCommand, match="network"):
            async with env.trial("true", reach=Reach(network=True)):
                pass
    assert not (tree.parent / "beside").exists()


CHANGES = {
    "the same file": ("a", "echo theirs > a"),
    "by its mode": ("a", "chmod 700 a"),
    "gone": ("a", "rm a"),
    "gone that was to go": ("b", "echo theirs > b"),
    "a directory with something new": ("sub", "echo theirs > sub/deep/new"),
    "a directory with something changed": ("sub", "echo theirs > sub/x"),
    "a directory that is another": ("sub", "mv sub other; mkdir sub"),
    "the mode of a directory": ("kept", "chmod 711 kept"),
    "a file in the place of a directory that is given a mode": ("kept", "rmdir kept; echo theirs > kept"),
    "a link there": ("kept", "rmdir kept; ln -s a kept"),
    "nothing there": ("kept", "rmdir kept"),
    "a new file that is there already": ("new", "echo theirs > new"),
    "a new directory that is there already": ("dir", "mkdir dir"),
}


async def test_conflict_is_named_and_nothing_is_done(env: Environment, tree: Path) -> None:
    for name, (path, theirs) in CHANGES.items():
        with row(name):
            shutil.rmtree(tree)
            (tree / "sub" / "deep").mkdir(parents=True)
            (tree / "kept").mkdir()
            for each in ("a", "b", "sub/x", "sub/deep/y"):
                (tree / each).write_text(f"{each}\n")
            async with env.trial(
                "echo ours >> a; rm b; rm -r sub; echo 1 > new; mkdir dir; echo 2 > dir/f; echo 3 > z; chmod 700 kept"
            ) as trial:
                subprocess.run(theirs, shell=True, cwd=tree, check=True)
                before = truth(tree)
                with pytest.raises(CommitConflict) as caught:
                    await trial.commit()
                assert caught.value.paths == (path,)
                assert truth(tree) == before


async def test_every_conflict_is_named(env: Environment, tree: Path) -> None:
    async with env.trial("echo ours | tee a b sub/x") as trial:
        (tree / "a").write_text("theirs")
        (tree / "sub" / "x").write_text("theirs")
        with pytest.raises(CommitConflict) as caught:
            await trial.commit()
    assert caught.value.paths == ("a", "sub/x")
    assert (tree / "b").read_text() == "b\n"


@pytest.mark.parametrize("how", ["write", "replace", "remove"])
async def test_a_change_in_the_last_moment_is_a_conflict(
    env: Environment, tree: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The change comes between the last look at a file and the exchange, a moment that no test can hit otherwise."""
    rename = commit._rename

    def late(at: int | None, old: str, new: str, kind: int, path: str) -> None:
        if path == "b" and not late_ones:
            late_ones.append(path)
            if how == "write":
                (tree / "b").write_text("theirs, late\n")
            else:
                (tree / "b").unlink()
            if how == "replace":
                (tree / "b").write_text("theirs, late\n")
        rename(at, old, new, kind, path)

    late_ones: list[str] = []
    monkeypatch.setattr(commit, "_rename", late)
    async with env.trial("echo ours | tee a b new; rm sub/x") as trial:
        with pytest.raises(AnyshellError, match="nothing was committed"):
            await trial.commit()
    assert late_ones
    assert (tree / "a").read_text() == "a\n"
    assert (tree / "sub" / "x").read_text() == "sub/x\n"
    assert not (tree / "new").exists()
    assert how == "remove" or (tree / "b").read_text() == "theirs, late\n"
    assert not list(tree.rglob(".anyshell-*"))


async def test_a_link_in_the_place_of_a_directory_is_not_followed(env: Environment, tree: Path) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    async with env.trial("echo ours > sub/deep/new") as trial:
        shutil.rmtree(tree / "sub" / "deep")
        (tree / "sub" / "deep").symlink_to(outside)
        with pytest.raises(CommitConflict, match="sub/deep/new"):
            await trial.commit()
    assert not list(outside.iterdir())


async def test_conflicts_never_lose_a_byte(env: Environment, tree: Path) -> None:
    """Another program replaces files all the while: each of its versions exists, or was replaced by a commit that saw it."""
    names = [f"f{number}" for number in range(20)]
    over = threading.Event()
    last: dict[str, str] = {}

    def other() -> None:
        rng = random.Random(1)
        number = 0
        while not over.is_set():
            name = rng.choice(names)
            number += 1
            (tree / "tmp").write_text(f"theirs {number}\n")
            os.rename(tree / "tmp", tree / name)
            last[name] = f"theirs {number}\n"

    for name in names:
        (tree / name).write_text("start\n")
    kept = 0
    named: set[str] = set()
    for _ in range(10):
        async with env.trial("for f in f*; do echo ours > $f; done") as trial:
            over.clear()
            last.clear()
            thread = threading.Thread(target=other)
            thread.start()
            try:
                await trial.commit()
            except CommitConflict as error:
                kept += 1
                named.update(error.paths)
            finally:
                over.set()
                thread.join()
            for name, text in last.items():
                assert (tree / name).read_text() == text
    # A file that might belong to the other program, such as one with the same number, stays and is named.
    assert {path.name for path in tree.glob(".anyshell-*")} <= named
    assert kept, "the other program was never in the way"


KILLED = """
import asyncio, os, sys
from anyshell import Environment
async def main():
    async with Environment.detect(cwd=sys.argv[1]) as env:
        async with env.trial("for f in f*; do printf 'new %s' $f > $f; done; rm -r old; mkdir d; echo x > d/x") as trial:
            print("ready", flush=True)
            sys.stdin.read(1)
            await trial.commit()
            print("over", flush=True)
asyncio.run(main())
"""


async def test_a_killed_commit_leaves_whole_files(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    states = set()
    size = 90_000
    for moment in range(8):
        shutil.rmtree(tree, ignore_errors=True)
        (tree / "old").mkdir(parents=True)
        (tree / "old" / "o").write_text("o")
        for number in range(40):
            (tree / f"f{number}").write_text("old" * (size // 300))
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, tree], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as committing:
            assert committing.stdin is not None
            assert committing.stdout is not None
            assert committing.stdout.readline() == "ready\n"
            committing.stdin.write("x")
            committing.stdin.flush()
            # Moments of the commit, known by its files: temporary files first, and then new files.
            while committing.poll() is None:
                there = sum(path.name.startswith(".anyshell-") for path in tree.iterdir())
                done = sum((tree / f"f{number}").stat().st_size < 20 for number in range(0, 40, 4))
                if there >= moment * 8 if moment < 5 else done >= moment * 3 - 12:
                    break
            committing.send_signal(signal.SIGKILL)
            committing.wait()
        new = 0
        for number in range(40):
            text = (tree / f"f{number}").read_text()
            assert text in ("old" * (size // 300), f"new f{number}")
            new += text.startswith("new")
        assert not (tree / "old").exists() or (tree / "old" / "o").read_text() == "o"
        assert not (tree / "d").exists() or (tree / "d" / "x").read_text() == "x\n"
        states.add(new)
        async with Environment.detect(cwd=tree) as env, env.trial("true"):
            # The next trial undoes an incomplete commit, or removes the old files after a complete one.
            texts = {(tree / f"f{number}").read_text()[:3] for number in range(40)}
            assert texts == {"old"} or (texts == {"new"} and new == 40)
            assert (tree / "old").exists() == (texts == {"old"})
            assert (tree / "d").exists() == (texts == {"new"})
            assert not list(tree.rglob(".anyshell-*"))
    assert len(states) > 1, states


def test_commit_killed_before_any_step_is_undone_or_complete(tmp_path: Path) -> None:
    program = [
        sys.executable,
        "-m",
        "tests.killed_commits",
        str(tmp_path),
        "7",
    ]  # "1" tries each step, and takes 3 s
    told = subprocess.run(program, capture_output=True, check=True, text=True, cwd=Path(__file__).parents[1])
    steps = [json.loads(line) for line in told.stdout.splitlines()]
    whole = steps[-1][2]
    assert len(steps) > 10
    for number, (before, between, after, ended, left) in enumerate(steps):
        assert left == [], number
        assert after in (before, whole), number
        assert {path: between[path][1] in ("theirs", "ours") for path in ("a", "b")} == {"a": True, "b": True}
        assert all(each[1] in ("theirs", "ours", "") for each in between.values())
        assert all(files == [] for _, files in ended)
    middle = [between for before, between, after, *_ in steps if between not in (before, whole)]
    assert middle
    assert whole != steps[0][0]


def test_changes_after_a_killed_commit_are_kept(tmp_path: Path) -> None:
    tree, place = tmp_path / "tree", tmp_path / "layers"
    for last in range(60, 1000, 3):
        shutil.rmtree(tree, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        tree.mkdir()
        killed_commits.fill(tree)
        assert killed_commits.killed(tree, place, last)
        if (tree / "a").read_text() == "ours" and not (tree / "gone").exists():
            break
    (tree / "a").write_text("later")
    (tree / "gone").write_text("later")
    [(top, left)] = layer._sweep(str(place))
    assert top == str(tree)
    assert [(tree / path).read_text() for path in left] == ["theirs", "theirs"]
    assert ((tree / "a").read_text(), (tree / "gone").read_text()) == ("later", "later")
    assert (tree / "b").read_text() == "theirs"
    assert (tree / "sub" / "deep" / "y").read_text() == "theirs"


def test_undo_reverts_a_killed_commit(tree: Path) -> None:
    directory = tree.parent / "tried"
    directory.mkdir()
    killed_commits.fill(directory)
    assert killed_commits.killed(directory, state_directory("trials"), 60)
    assert list(directory.glob(".anyshell-*"))
    command = [sys.executable, "-m", "anyshell", "undo"]
    assert subprocess.run([*command, "--list"], cwd=tree, capture_output=True, check=True).stderr == b""
    assert list(directory.glob(".anyshell-*"))
    undone = subprocess.run(command, cwd=tree, capture_output=True, check=False)
    assert undone.returncode == 0
    assert undone.stderr.decode() == f"anyshell: a killed commit of a trial is ended in: {directory}\n"
    assert not list(directory.glob(".anyshell-*"))


def swap(place: Path, outside: Path) -> None:
    """Replace a file or directory by a link, as a hostile owner of a directory above can do."""
    place.rename(place.with_name("away"))
    place.symlink_to(outside)


async def test_a_swap_in_the_midst_of_a_commit_reaches_nothing_outside(
    env: Environment, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "y").write_text("outside")
    (outside / "y").chmod(0o640)
    outside.chmod(0o750)
    before = truth(outside)
    with row("the removal of what was there"), monkeypatch.context() as patch:
        remove_known = commit.Commit._remove_known

        def late(self: commit.Commit, path: str) -> None:
            swap(next(tree.glob(".anyshell-*/deep")), outside)
            remove_known(self, path)

        patch.setattr(commit.Commit, "_remove_known", late)
        async with env.trial("rm -r sub") as trial:
            await trial.commit()
        assert truth(outside) == before
    for each in tree.glob(".anyshell-*"):
        shutil.rmtree(each)
    with row("the facts of what is new"), monkeypatch.context() as patch:
        copy_content = commit._copy_content

        def swapped(*words: Any) -> None:
            copy_content(*words)
            swap(next(tree.glob(".anyshell-*")), outside / "y")

        patch.setattr(commit, "_copy_content", swapped)
        async with env.trial("echo x > new; chmod 4777 new") as trial:
            with pytest.raises(CommitConflict):
                await trial.commit()
        assert truth(outside) == before
        assert not (tree / "new").exists()
    with row("the removal of a layer"), monkeypatch.context() as patch:
        chmod = os.chmod
        (tree / "mine" / "inner").mkdir(parents=True)
        count = 0

        def chmod_late(*words: Any, **named: Any) -> None:
            nonlocal count
            count += 1
            if count == 2:
                swap(tree / "mine" / "inner", outside)
            chmod(*words, **named)

        patch.setattr(os, "chmod", chmod_late)
        with HeldDirectory(str(tree)) as held, pytest.raises(NotADirectoryError):
            held.remove("mine", (tree / "mine").stat().st_ino)
        assert truth(outside) == before
    assert (outside.stat().st_mode & 0o777, (outside / "y").stat().st_mode & 0o7777) == (0o750, 0o640)


async def test_a_link_above_the_directory_is_not_followed(env: Environment, tree: Path) -> None:
    other = tree.parent / "other"
    async with env.trial("echo ours > new; rm a") as trial:
        shutil.copytree(tree, other)
        tree.rename(tree.with_name("away"))
        tree.symlink_to(other)
        with pytest.raises(AnyshellError, match="nothing was committed"):
            await trial.commit()
        tree.unlink()
        other.rename(tree)
        with pytest.raises(CommitConflict):
            await trial.commit()
    assert (tree / "a").exists()


def tops() -> list[str]:
    return layer.Layer(str(state_directory("trials").parent)).prepare(["/"])[2]


def layers() -> list[Path]:
    return [path for root in map(Path, tops()) if root.is_dir() for path in root.iterdir()]


def mounts() -> list[str]:
    """The mounts of the machine, without those that tests make: another worker may make one at the same time."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if "anyshell-test" not in line]


async def test_timeout_and_cancellation_leave_nothing_behind(env: Environment, tree: Path) -> None:
    before, mounted = truth(tree), mounts()
    seconds = unique_seconds()
    text = f"echo x > a; (setsid env -i sleep {seconds} &) ; sleep {seconds}"
    async with env.trial(text, timeout=3) as trial:
        assert trial.outcome.status == "timed_out"
        assert [each.path for each in trial.effects.changed] == ["a"]
        assert trial.effects.complete
    await wait_none(seconds)
    control = Control()

    async def enter(trial: Trial) -> str:
        async with trial:
            return trial.outcome.status

    task = asyncio.create_task(enter(env.trial(text, control=control)))
    await asyncio.to_thread(wait_living, seconds)
    control.cancel()
    assert await task == "cancelled"
    task = asyncio.create_task(enter(env.trial(text)))
    await asyncio.to_thread(wait_living, seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_none(seconds)
    assert not living(seconds)
    assert truth(tree) == before
    assert layers() == []
    assert mounts() == mounted


async def test_a_killed_trial_is_swept(tree: Path, env: Environment) -> None:
    seconds = unique_seconds()
    script = KILLED.replace('"for f', "f\"sleep {os.environ['SECONDS']}; for f")
    surroundings = {**os.environ, "SECONDS": seconds}
    with subprocess.Popen([sys.executable, "-c", script, tree], env=surroundings) as running:
        await asyncio.to_thread(wait_living, seconds)
        running.kill()
    await wait_none(seconds)
    assert layers()
    async with env.trial("true"):
        assert len([path for path in layers() if path.is_dir()]) == 1
    assert layers() == []


async def test_impossible_trials_are_refused_at_once(
    tree: Path, env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(layer.Layer, "prepare", lambda _, paths: (paths, "", ["/proc/nowhere"]))
        with pytest.raises(ReachUnavailable, match="overlay above"):
            async with env.trial("echo x > a"):
                pass
    with monkeypatch.context() as patch:

        async def facts(*_: object, here: bool) -> Facts:
            return Facts(
                python="/usr/bin/python3",
                bwrap="/usr/bin/bwrap",
                version="0.8.0",
                cannot={"user": "not permitted"},
            )

        patch.setattr("anyshell._environment.trials.facts_of", facts)
        with pytest.raises(ReachUnavailable, match="user namespaces"):
            async with env.trial("echo x > a"):
                pass
    async with Environment.detect(cwd="/") as everything:
        with pytest.raises(InvalidCommand, match="needs a directory"):
            async with everything.trial("true"):
                pass
    async with Environment.detect(cwd="/sys") as mounted:
        with pytest.raises(ReachUnavailable, match="another file system is mounted"):
            async with mounted.trial("true"):
                pass

    class Own:
        def wrap(self, spawn: anyshell.abc.Spawn) -> anyshell.abc.Spawn:
            return spawn

    own: Sandbox = Own()
    async with Environment.detect(cwd=tree, reach=own) as environment:
        with pytest.raises(ReachUnavailable, match="caller's own"):
            async with environment.trial("true"):
                pass
    assert (tree / "a").read_text() == "a\n"
    assert layers() == []


async def test_file_with_two_names_is_reported(env: Environment, tree: Path) -> None:
    os.link(tree / "a", tree / "c")
    async with env.trial("echo more >> a; cat a c") as trial:
        assert any("a has other names" in why for why in trial.effects.incomplete)


async def test_facts_of_directories_are_committed(env: Environment, tree: Path) -> None:
    set_one = "import os; os.setxattr('sub', 'user.anyshell', b'1')"
    text = f'chmod 711 .; {PYTHON} -c "{set_one}"; touch -d @1000 sub/deep'
    async with env.trial(text) as trial:
        assert trial.outcome.output.text == ""
        assert [(each.path, each.mode) for each in trial.effects.changed if each.path == "."] == [
            (".", 0o711)
        ]
        await trial.commit()
    assert stat.S_IMODE(tree.stat().st_mode) == 0o711
    assert os.getxattr(tree / "sub", "user.anyshell") == b"1"
    assert (tree / "sub" / "deep").stat().st_mtime == 1000


async def test_closed_directories_are_read_and_committed(env: Environment, tree: Path) -> None:
    (tree / "sub" / "deep").chmod(0o555)
    text = "chmod 700 sub/deep; echo n > sub/deep/n; chmod 500 sub/deep; mkdir new; echo x > new/x; chmod 000 new"
    async with env.trial(text) as trial:
        assert [each.path for each in trial.effects.created] == ["new", "new/x", "sub/deep/n"]
        await trial.commit()
    modes = {name: stat.S_IMODE((tree / name).stat().st_mode) for name in ("sub/deep", "new")}
    assert modes == {"sub/deep": 0o500, "new": 0o000}
    (tree / "new").chmod(0o700)
    assert (tree / "new" / "x").read_text() == "x\n"


async def test_names_of_one_file_are_committed_together(env: Environment, tree: Path) -> None:
    os.link(tree / "a", tree / "c")
    os.link(tree / "a", tree / "sub" / "c")
    async with env.trial("rm a; echo other > c; mv sub/c sub/d") as trial:
        await trial.commit()
    assert not (tree / "a").exists()
    assert (tree / "c").read_text() == "other\n"
    assert (tree / "sub" / "d").read_text() == "a\n"


async def test_reading_for_a_diff_is_bounded(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.effects.diff.LARGEST_KEPT", 3)
    async with env.trial("rm a b") as trial:
        assert list(trial.effects.without_diff.values()) == ["not read"]
        assert trial.diff.count("deleted file") == 1


async def test_layer_deeper_than_the_longest_path_is_removed(env: Environment, tree: Path) -> None:
    text = "n=$(printf %0200d 0); for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do mkdir $n && cd $n; done; echo x > f"
    async with env.trial(text) as trial:
        assert len(trial.effects.created) == 23
        with pytest.raises(AnyshellError, match="nothing was committed: File name too long"):
            await trial.commit()
    assert layers() == []


@pytest.mark.timeout(240)  # the test repeats all tests of this file
def test_an_ordinary_user_has_trials_like_root(tmp_path: Path) -> None:
    """All tests above again, as a user without files and rights."""
    once_more_as_an_ordinary_user(
        __file__, "not an_ordinary_user and not direct_run and not killed", tmp_path
    )
