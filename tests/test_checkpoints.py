"""Checkpoints: an undo restores the former files, and deletes no unknown file."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings

from anyshell import AnyshellError, Environment
from anyshell.trial import Checkpoints, store
from anyshell.trial.files import HeldDirectory, Record

assert sys.platform != "win32"  # on other systems mypy skips the code below

from .conftest import NOBODY, missing
from .test_effects import Step, perform, steps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio


def truth(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a directory that a checkpoint covers."""
    found = {}
    for above, directories, files in os.walk(os.fsencode(root)):
        for name in (*directories, *files):
            path = os.path.join(above, name)
            at, content = os.lstat(path), b""
            if stat.S_ISREG(at.st_mode):
                content = Path(os.fsdecode(path)).read_bytes()
            elif stat.S_ISLNK(at.st_mode):
                content = os.readlink(path)
            if not stat.S_ISFIFO(at.st_mode):
                found[os.fsdecode(os.path.relpath(path, os.fsencode(root)))] = (at.st_mode, content)
        directories[:] = [name for name in directories if name != b"node_modules"]
    return found


@pytest.fixture
async def env(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_text("a\n")
    (root / "sub").mkdir()
    (root / "sub" / "x").write_text("x\n")
    async with Environment.detect(cwd=root) as environment:
        yield environment


def without(given: list[Step], *verbs: str) -> list[Step]:
    return [
        step
        for step in given
        if step[0] not in verbs and not {"node_modules"} & {*step[1].split("/"), *step[2].split("/")}
    ]


@settings(max_examples=40, deadline=None)
@example(
    [("mkdir", "a", "a", 0), ("write", "a/é", "a", 3)], [("replace", "a", "a", 0), ("write", "a/-x", "a", 1)]
)
@example(
    [("write", "a", "a", 3)], [("remove", "a", "a", 0), ("mkdir", "a", "a", 0), ("write", "a/*", "a", 1)]
)
@example(
    [("mkdir", "a", "a", 0), ("write", "a/*", "a", 1)], [("remove", "a", "a", 0), ("symlink", "a", "*", 1)]
)
@given(steps, steps)
def test_undo_restores_the_tree(before: list[Step], then: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "tree")
        root.mkdir()
        perform(root, without(before, "fifo", "link"))
        was = truth(root)

        async def there_and_back() -> None:
            async with Environment.detect(cwd=root) as env:
                start = await env.checkpoint()
                perform(root, without(then, "fifo"))
                end = await env.checkpoint(since=start)
                became = truth(root)
                restored = await env.restore(start, until=end)
                assert truth(root) == was
                assert not restored.kept
                # Undo the undo: the removed files exist again.
                again = await env.restore(restored.before)
                assert (
                    truth(root).items()
                    >= {path: became[path] for path in became if path not in again.kept}.items()
                )

        asyncio.run(there_and_back())


async def test_changes_from_elsewhere_are_kept_and_named(env: Environment) -> None:
    root = Path(env.directory)
    start = await env.checkpoint()
    await env.run("echo b > a; echo n > new; echo n > mine; mkdir dir; echo d > dir/d; rm sub/x")
    end = await env.checkpoint(since=start)
    (root / "theirs").write_text("theirs")
    (root / "dir" / "theirs").write_text("theirs")
    (root / "mine").write_text("changed since")
    (root / "a").write_text("changed since as well")
    restored = await env.restore(start, until=end)
    assert restored.removed == ("new", "dir/d")
    assert restored.restored == ("sub/x",)
    assert {"theirs", "dir", "dir/theirs", "mine", "a"} == restored.kept.keys()
    assert (root / "a").read_text() == "changed since as well"
    assert (root / "mine").read_text() == "changed since"
    assert (root / "dir" / "theirs").read_text() == "theirs"


async def test_restore_without_an_end_removes_no_file(env: Environment) -> None:
    root = Path(env.directory)
    start = await env.checkpoint()
    await env.run("echo b > a; echo n > new; rm -r sub")
    restored = await env.restore(start)
    assert (root / "a").read_text() == "a\n"
    assert (root / "sub" / "x").read_text() == "x\n"
    assert (root / "new").read_text() == "n\n"
    assert restored.kept.keys() == {"new"}
    await env.restore(restored.before)
    assert (root / "a").read_text() == "b\n"


async def test_uncovered_files_are_named(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LARGEST_CONTENT", 100)
    root = Path(env.directory)
    (root / "node_modules").mkdir()
    (root / "node_modules" / "m").write_text("m")
    (root / "large").write_text("l" * 101)
    start = await env.checkpoint()
    assert start.skipped == ("node_modules",)
    assert start.left_out == {"large": "too large"}
    await env.run(
        "rm -r node_modules; echo s > large; head -c 200 /dev/zero > a; head -c 200 /dev/zero > other"
    )
    end = await env.checkpoint(since=start)
    restored = await env.restore(start, until=end)
    assert (root / "large").read_text() == "s\n"
    assert {"a", "other", "large"} <= restored.kept.keys()
    assert (root / "other").stat().st_size == 200


async def test_a_link_in_the_place_of_a_directory_is_not_followed(env: Environment, tmp_path: Path) -> None:
    root, outside = Path(env.directory), tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("outside\n")
    start = await env.checkpoint()
    end = await env.checkpoint(since=start)
    shutil.rmtree(root / "sub")
    (root / "sub").symlink_to(outside)
    restored = await env.restore(start, until=end)
    assert "sub" in restored.kept
    assert "sub/x" in restored.kept
    assert (outside / "x").read_text() == "outside\n"


async def test_directory_swapped_during_an_undo_is_not_followed(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of a directory can do this during root's undo: after the check of a path, and before a step on that path."""
    root, outside = Path(env.directory), tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("outside\n")
    (outside / "new").write_text("outside\n")
    start = await env.checkpoint()
    await env.run("echo b > sub/x; echo n > sub/new; chmod 700 sub")
    end = await env.checkpoint(since=start)
    is_as_seen, modes = store._is_as_seen, os.stat(outside).st_mode

    def late(*words: Any) -> bool:
        seen = is_as_seen(*words)
        if not (root / "sub").is_symlink():
            (root / "sub").rename(root / "away")
            (root / "sub").symlink_to(outside)
        return seen

    with monkeypatch.context() as patch:
        patch.setattr(store, "_is_as_seen", late)
        await env.restore(start, until=end)
    assert [(outside / name).read_text() for name in ("x", "new")] == ["outside\n", "outside\n"]
    assert sorted(path.name for path in outside.iterdir()) == ["new", "x"]
    assert os.stat(outside).st_mode == modes
    # And before the check, so that no outside content is stored and later given to that owner.
    (root / "sub").unlink()
    (root / "away").rename(root / "sub")
    entries = HeldDirectory.entries

    def entries_late(self: HeldDirectory, path: str) -> Iterator[tuple[str, Record]]:
        yield from entries(self, path)
        if path == "sub":
            (root / "sub").rename(root / "away")
            (root / "sub").symlink_to(outside)

    with monkeypatch.context() as patch:
        patch.setattr(HeldDirectory, "entries", entries_late)
        taken = await env.checkpoint()
    (root / "sub").unlink()
    (root / "sub").mkdir()
    restored = await env.restore(taken)
    assert "outside\n" not in [path.read_text() for path in (root / "sub").iterdir()], restored


async def test_changes_during_an_undo_are_kept(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes come after all files were stored, and before the restore; a patch makes this moment reproducible."""
    root = Path(env.directory)
    start = await env.checkpoint()
    await env.run("echo b > a; rm sub/x; echo n > new")
    end = await env.checkpoint(since=start)
    take = store.Store.take

    def late(self: store.Store, *words: Any, **named: Any) -> object:
        taken = take(self, *words, **named)
        for name in ("a", "sub/x", "new"):
            (root / name).write_text("theirs, late\n")
        return taken

    monkeypatch.setattr(store.Store, "take", late)
    restored = await env.restore(start, until=end)
    assert restored.kept.keys() == {"a", "sub/x", "new"}
    assert all((root / name).read_text() == "theirs, late\n" for name in restored.kept)


async def test_undo_does_not_touch_a_git_repository(env: Environment) -> None:
    if shutil.which("git") is None:
        missing("git", "install git")
    root = Path(env.directory)
    set_up = "git init -q && git add a && git -c user.name=n -c user.email=e commit -qm one && echo 2 >> a && git add a"
    assert (await env.run(set_up)).exit_code == 0
    before = truth(root / ".git")
    start = await env.checkpoint()
    await env.run("echo 3 > a; rm sub/x")
    await env.restore(start)
    assert (root / "a").read_text() == "a\n2\n"
    assert truth(root / ".git") == before


async def test_uncovered_directory_is_kept_under_its_new_name(env: Environment) -> None:
    root = Path(env.directory)
    (root / "node_modules").mkdir()
    (root / "node_modules" / "m").write_text("m")
    start = await env.checkpoint()
    await env.run("mv node_modules modules; echo n > new")
    end = await env.checkpoint(since=start)
    restored = await env.restore(start, until=end)
    assert restored.removed == ("new",)
    assert restored.kept.keys() == {"modules", "modules/m", "node_modules"}
    assert (root / "modules" / "m").read_text() == "m"
    assert not (root / "node_modules").exists()


async def test_closed_directories_are_undone_and_unreadable_files_kept(
    ordinary_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(ordinary_directory / "state"))
    root = ordinary_directory / "tree"
    root.mkdir()
    for name in ("hidden", "closed"):
        (root / name).mkdir()
        (root / name / "f").write_text("f")
    (root / "hidden").chmod(0o000)
    (root / "closed").chmod(0o555)
    async with Environment.detect(cwd=root) as env:
        start = await env.checkpoint()
        assert start.left_out == {"hidden": "its files cannot be read"}
        (root / "hidden").chmod(0o755)
        (root / "closed").chmod(0o755)
        (root / "closed" / "f").write_text("changed")
        (root / "new").mkdir()
        (root / "new" / "n").write_text("n")
        (root / "new").chmod(0o555)
        end = await env.checkpoint(since=start)
        restored = await env.restore(start, until=end)
    assert restored.removed == ("new/n", "new")
    assert (root / "closed" / "f").read_text() == "f"
    modes = [stat.S_IMODE((root / name).stat().st_mode) for name in ("hidden", "closed")]
    assert modes == [0o000, 0o555]
    (root / "hidden").chmod(0o700)
    assert (root / "hidden" / "f").read_text() == "f"
    (root / "closed").chmod(0o700)


async def test_state_files_of_anyshell_are_not_undone(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(env.directory)
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(root / "state"))
    start = await env.checkpoint()
    await env.run("echo b > a")
    end = await env.checkpoint(since=start)
    assert end.skipped == ("state",)
    restored = await env.restore(start, until=end)
    assert (restored.restored, restored.removed, restored.kept) == (("a",), (), {})


async def test_leftovers_of_a_killed_undo_are_removed(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(env.directory)
    (root / "sub" / ".anyshell-undo-0123456789abcdef").write_text("half")
    start = await env.checkpoint()
    assert start.files == 3
    assert len(list(root.rglob(".anyshell-*"))) == 1, "another undo may be at it"
    monkeypatch.setattr(store, "UNUSED_SECONDS", -1.0)
    await env.checkpoint()
    assert not list(root.rglob(".anyshell-*"))


async def test_undo_restores_the_directory_itself(env: Environment) -> None:
    root = Path(env.directory)
    start = await env.checkpoint()
    await env.run('rm -r "$PWD"')
    assert not root.exists()
    end = await env.checkpoint(since=start)
    await env.restore(start, until=end)
    assert (root / "sub" / "x").read_text() == "x\n"


async def test_old_checkpoints_are_removed_unless_needed(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "KEPT_CHECKPOINTS", 3)
    monkeypatch.setattr(store, "UNUSED_SECONDS", -1.0)
    root = Path(env.directory)
    made = []
    for number in range(4):
        (root / "a").write_text(f"{number}")
        made.append(await env.checkpoint())
    kept = Checkpoints(env.directory)
    assert [each.id for each in await kept.kept()] == [each.id for each in reversed(made[1:])]
    with pytest.raises(AnyshellError, match="not kept any more"):
        await env.restore(made[0])
    await env.restore(made[1])
    assert (root / "a").read_text() == "1"
    with pytest.raises(AnyshellError, match="is of"):
        await env.restore(replace(made[2], directory="/elsewhere"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
async def test_files_restored_by_root_keep_their_owner(env: Environment) -> None:
    root = Path(env.directory)
    (root / "sub" / "deep").mkdir()
    (root / "other").write_text("o")
    for name, owner, mode in (
        ("a", (NOBODY, 12), 0o4751),
        ("sub/x", (NOBODY, 0), 0o640),
        ("sub/deep", (0, 12), 0o2750),
        ("sub", (NOBODY, 12), 0o1777),
        ("other", (0, 0), 0o2711),
    ):
        os.chown(root / name, *owner)
        (root / name).chmod(mode)
    names = ("a", "sub", "sub/x", "sub/deep", "other")

    def owners() -> list[tuple[int, int, str]]:
        found = [(root / name).stat() for name in names]
        return [(at.st_uid, at.st_gid, stat.filemode(at.st_mode)) for at in found]

    before = owners()
    start = await env.checkpoint()
    await env.run("rm -r a sub; echo changed > other; chown 12:12 other")
    end = await env.checkpoint(since=start)
    restored = await env.restore(start, until=end)
    assert sorted(restored.restored) == sorted(names)
    assert owners() == before
    # A second checkpoint reads no file again, and still knows the owners.
    await env.checkpoint()
    start = await env.checkpoint()
    await env.run("rm a")
    await env.restore(start, until=await env.checkpoint(since=start))
    assert owners() == before


async def test_unprivileged_undo_drops_setuid_of_foreign_files(
    ordinary_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(ordinary_directory / "state"))
    root = ordinary_directory / "tree"
    root.mkdir()
    for name, mode in (("own", 0o4711), ("theirs", 0o4711)):
        (root / name).write_text("x")
        (root / name).chmod(mode)
    async with Environment.detect(cwd=root) as env:
        start = await env.checkpoint()
        file = store.Store(str(root), os.environ["ANYSHELL_STATE_DIR"])._path(start.id)
        told = json.loads(Path(file).read_text())
        # As if another user owned the file, which this user could read and delete.
        told[1]["theirs"][3] = 7 << 32 | 7
        Path(file).write_text(json.dumps(told))
        for name in ("own", "theirs"):
            (root / name).unlink()
        await env.restore(start, until=await env.checkpoint(since=start))
    modes = [stat.S_IMODE((root / name).stat().st_mode) for name in ("own", "theirs")]
    assert modes == [0o4711, 0o711]
    assert {(root / name).stat().st_uid for name in ("own", "theirs")} == {os.geteuid()}
