from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshell._exceptions import ArtifactNotFound
from anyshell.output.artifacts import ArtifactStore

if TYPE_CHECKING:
    from anyshell._types import Artifact

DAY = 24 * 3600.0
KIB = 1024
MIB = 1024 * KIB
PATTERN = b"".join(b"%07d\n" % number for number in range(170_000))  # all positions differ

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes and owners")


def keep(store: ArtifactStore, *chunks: bytes, age: float = 0.0) -> Artifact:
    writer = store.create()
    for chunk in chunks:
        writer.write(chunk)
    artifact = writer.finish()
    make_older(artifact.path, age)
    return artifact


def make_older(path: Path, seconds: float) -> None:
    modified = path.stat().st_mtime - seconds
    os.utime(path, (modified, modified))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def expected_file(data: bytes, max_size: int) -> bytes:
    """The file as the docstring of ArtifactWriter specifies, computed the simple way."""
    if len(data) <= max_size:
        return data
    tail = min(4 * MIB, max_size // 16)
    head = max_size - tail
    marker = f"\n[anyshell: {len(data) - max_size} bytes were left out here, as an artifact keeps at most {max_size}]\n"
    return data[:head] + marker.encode() + data[len(data) - tail :]


# The directory


def test_new_store_creates_no_file(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "state" / "artifacts")
    assert store.list() == []
    assert store.prune() == []
    assert list(tmp_path.iterdir()) == []


def test_directory_must_be_a_path() -> None:
    with pytest.raises(ValueError, match=r"pathlib\.Path or None, not str"):
        ArtifactStore("text")  # type: ignore[arg-type]  # bad input is the point


def test_the_default_directory_follows_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path / "state"))
    assert keep(ArtifactStore(), b"x").path.parent == tmp_path / "state" / "artifacts"


@pytest.mark.parametrize("value", [None, ""])
def test_the_default_directory_is_the_users_state_directory(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv("ANYSHELL_STATE_DIR", raising=False)
    else:
        monkeypatch.setenv("ANYSHELL_STATE_DIR", value)
    directory = ArtifactStore().directory
    assert directory.is_absolute()
    assert directory.name == "artifacts"
    assert "anyshell" in directory.parts


def test_relative_directory_is_resolved_at_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = ArtifactStore(Path("here"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert keep(store, b"x").path.parent == tmp_path / "here"


@posix_only
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_files_are_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        writer = ArtifactStore(tmp_path / "made" / "artifacts").create()
        part = tmp_path / "made" / "artifacts" / f"{writer.id}.part"
        assert mode(part) == 0o600
        path = writer.finish().path
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    assert mode(path.parent.parent) == 0o700


@posix_only
def test_a_linked_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = ArtifactStore(tmp_path / "link")
    with pytest.raises(PermissionError, match="refused: it is a link; set ANYSHELL_STATE_DIR") as caught:
        store.create()
    assert caught.value.filename == str(tmp_path / "link")
    with pytest.raises(PermissionError, match="it is a link"):
        store.list()
    assert list((tmp_path / "real").iterdir()) == []


@posix_only
def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PermissionError, match="it is a link"):
        ArtifactStore(tmp_path / "link").create()
    assert not (tmp_path / "nowhere").exists()


@posix_only
@pytest.mark.parametrize("bits", [0o770, 0o702, 0o1777])
def test_directory_writable_by_others_is_refused(tmp_path: Path, bits: int) -> None:
    store = ArtifactStore(tmp_path / "shared")
    artifact = keep(store, b"x")
    store.directory.chmod(bits)
    with pytest.raises(PermissionError, match=r"others may write to it \(mode [0-7]{4}\)"):
        store.create()
    with pytest.raises(PermissionError, match="others may write"):
        store.read(artifact.id)
    with pytest.raises(PermissionError, match="others may write"):
        store.prune(max_age=0)


@posix_only
def test_directory_readable_by_others_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    keep(ArtifactStore(tmp_path / "open"), b"x")


@posix_only
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    try:
        shutil.chown(theirs, 12345)
    except PermissionError:
        pytest.skip("only root can give a directory away")
    with pytest.raises(PermissionError, match="belongs to user 12345"):
        ArtifactStore(theirs).create()


@pytest.mark.parametrize("below", ["artifacts", "a/b", "."])
def test_failed_creation_of_the_directory_is_an_os_error(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the platform
        ArtifactStore(tmp_path / "file" / below).create()


def test_removed_directory_is_created_again(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    keep(store, b"x").path.unlink()
    store.directory.rmdir()
    assert store.read(keep(store, b"y").id) == b"y"


@pytest.mark.parametrize(
    ("name", "value"), [("max_age", -1), ("max_age", float("nan")), ("max_total", -1), ("max_size", 0)]
)
def test_a_limit_out_of_range_is_refused(tmp_path: Path, name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        ArtifactStore(tmp_path, **{name: value})  # type: ignore[arg-type]  # bad input is the point


# Writing


def test_artifact_has_exactly_the_written_bytes(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    data = bytes(range(256)) * 40 + b"\r\n\x1a no translation"
    artifact = keep(store, data[:1000], b"", data[1000:])
    assert artifact.path.read_bytes() == data
    assert (artifact.size, artifact.omitted_bytes) == (len(data), 0)


def test_an_empty_artifact_can_be_kept(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    assert keep(store).size == 0


def test_ids_are_short_and_sort_by_time(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    made = [keep(store, b"x").id for _ in range(50)]
    assert len(set(made)) == 50
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", one) for one in made)
    assert [one[:15] for one in made] == sorted(one[:15] for one in made)


@pytest.mark.parametrize("extra", [0, 1, 15, 16, 17, 100_000])
def test_artifact_over_the_cap_omits_and_counts_its_middle(tmp_path: Path, extra: int) -> None:
    store = ArtifactStore(tmp_path / "a", max_size=160_000)
    data = os.urandom(160_000 + extra)
    artifact = keep(store, *(data[at : at + 7_000] for at in range(0, len(data), 7_000)))
    content = artifact.path.read_bytes()
    assert content == expected_file(data, 160_000)
    assert artifact.omitted_bytes == extra
    assert artifact.size == len(content)


@settings(max_examples=200, deadline=None)
@given(
    max_size=st.sampled_from([1, 15, 16, 17, 1_000, 70_000, 160_000]),
    sizes=st.lists(st.sampled_from([0, 1, 2, 50, 4_095, 4_096, 10_000, 65_536]), max_size=20),
)
def test_chunk_boundaries_do_not_change_the_file(
    tmp_path_factory: pytest.TempPathFactory, max_size: int, sizes: list[int]
) -> None:
    store = ArtifactStore(tmp_path_factory.getbasetemp() / "chunks", max_size=max_size)
    pattern = PATTERN[: sum(sizes)]
    writer = store.create()
    at = 0
    for size in sizes:
        writer.write(pattern[at : at + size])
        at += size
    artifact = writer.finish()
    content = artifact.path.read_bytes()
    artifact.path.unlink()
    assert content == expected_file(pattern, max_size)
    assert artifact.omitted_bytes == max(0, len(pattern) - max_size)
    assert artifact.size == len(content)


def test_tail_is_not_written_to_disk_before_the_end(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a", max_size=16 * KIB)
    writer = store.create()
    part = store.directory / f"{writer.id}.part"
    writer.write(b"h" * 20 * KIB)
    assert part.read_bytes() == b"h" * 15 * KIB
    for _ in range(100):
        writer.write(b"t" * 8 * KIB)
    assert part.stat().st_size == 15 * KIB
    assert writer.finish().omitted_bytes == 20 * KIB + 800 * KIB - 16 * KIB


def test_chunks_after_the_head_are_not_copied(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a", max_size=64 * MIB)
    writer = store.create()
    chunk = b"x" * 64 * KIB
    for _ in range(960):
        writer.write(chunk)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            writer.write(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    writer.discard()
    assert peak < 64 * KIB  # a tail of 4 MiB, made of one object


def test_a_million_tiny_writes_stay_in_bounded_memory(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a", max_size=16 * MIB)
    writer = store.create()
    writer.write(b"h" * 15 * MIB)
    tracemalloc.start()
    try:
        for _ in range(1_200_000):
            writer.write(b"t")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    artifact = writer.finish()
    assert peak < 1.5 * MIB  # the tail is 1 MiB
    assert artifact.omitted_bytes == 1_200_000 - MIB
    assert artifact.path.read_bytes().endswith(b"]\n" + b"t" * MIB)


def test_finish_is_idempotent_and_later_discard_keeps_the_artifact(tmp_path: Path) -> None:
    writer = ArtifactStore(tmp_path / "a").create()
    writer.write(b"x")
    artifact = writer.finish()
    assert writer.finish() is artifact
    writer.discard()
    assert artifact.path.read_bytes() == b"x"
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"y")


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere an open file does not stop a rename")
@pytest.mark.parametrize("end", ["finish", "discard"])
def test_opened_artifact_can_be_finished_or_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    writer = ArtifactStore(tmp_path / "artifacts").create()
    writer.write(b"x")
    looking = [os.open(tmp_path / "artifacts" / f"{writer.id}.part", os.O_RDONLY)]
    monkeypatch.setattr(time, "sleep", lambda _: os.close(looking.pop()))  # meanwhile
    if end == "finish":
        assert writer.finish().path.read_bytes() == b"x"
    else:
        writer.discard()
        assert os.listdir(tmp_path / "artifacts") == []
    assert looking == []


def test_discarded_artifact_leaves_no_file_and_refuses_writes(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    writer = store.create()
    writer.write(b"x")
    writer.discard()
    writer.discard()
    assert list(store.directory.iterdir()) == []
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"y")
    with pytest.raises(ValueError, match="closed"):
        writer.finish()


@posix_only
def test_finish_raises_if_the_file_was_removed(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    writer = store.create()
    (store.directory / f"{writer.id}.part").unlink()
    with pytest.raises(FileNotFoundError):
        writer.finish()
    assert store.list() == []


FULL_DISK = """
import errno, os, resource, sys
from pathlib import Path
from anyshell.output.artifacts import ArtifactStore

store = ArtifactStore(Path(sys.argv[1]), max_size=64_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
descriptors = os.listdir("/dev/fd")
writer = store.create()
step = "write"
try:
    for _ in range(100):
        writer.write(b"x" * 7_000)
    step = "finish"
    writer.finish()
except OSError as error:
    assert error.errno == errno.EFBIG, error
    print(step)
assert os.listdir(store.directory) == []
assert os.listdir("/dev/fd") == descriptors
writer.discard()
for closed in (lambda: writer.write(b"x"), writer.finish):
    try:
        closed()
    except ValueError:
        print("closed")
"""


@posix_only
@pytest.mark.parametrize(("limit", "step"), [(0, "write"), (10_000, "write"), (61_000, "finish")])
def test_full_disk_leaves_no_file_and_closes_the_writer(tmp_path: Path, limit: int, step: str) -> None:
    with child(FULL_DISK, tmp_path / "a", limit) as process:  # the real error of a real disk, at that size
        stdout, _ = process.communicate()
    assert process.returncode == 0
    assert stdout.split() == [step, "closed", "closed"]


# Finding


def test_the_list_is_newest_first_and_holds_only_finished_artifacts(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    made = [keep(store, b"x" * size, age=size * 60.0) for size in (3, 1, 2)]
    store.create()
    (store.directory / "notes.out").write_bytes(b"not ours")
    (store.directory / "20260101-000000-00000000.out").mkdir()
    entries = store.list()
    assert [entry.size for entry in entries] == [1, 2, 3]
    assert [entry.id for entry in entries] == [made[1].id, made[2].id, made[0].id]
    assert all(entry == store.get(entry.id) for entry in entries)
    assert all(entry.path == store.path(entry.id) for entry in entries)


def test_parts_of_an_artifact_can_be_read(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    one = keep(store, b"0123456789").id
    assert store.read(one) == b"0123456789"
    assert store.read(one, offset=7) == b"789"
    assert store.read(one, offset=2, length=3) == b"234"
    assert store.read(one, offset=2, length=0) == b""
    assert store.read(one, offset=99) == b""
    with pytest.raises(ValueError, match="0 or more"):
        store.read(one, offset=-1)
    with pytest.raises(ValueError, match="0 or more"):
        store.read(one, length=-1)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        ".",
        "..",
        "../secret",
        "..\\secret",
        "/etc/passwd",
        "secret",
        "20260101-000000-0000000g",
        "20260101-000000-00000000\n",
        "20260101-000000-00000000\0",
        "20260101-000000-00000000/../secret",
        "\u0662\u0660\u0662\u06660101-000000-00000000",
        "20260101-000000-00000000",
        "x" * 100_000,
    ],
)
def test_invalid_or_unknown_id_is_not_found(tmp_path: Path, bad: str) -> None:
    (tmp_path / "secret.out").write_bytes(b"secret")
    store = ArtifactStore(tmp_path / "a")
    keep(store, b"x")
    for ask in (store.get, store.path, store.read):
        with pytest.raises(ArtifactNotFound, match="`anyshell artifacts list` shows") as caught:
            ask(bad)
        assert len(str(caught.value)) < 500


def test_missing_directory_has_no_artifacts(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFound):
        ArtifactStore(tmp_path / "none").get("20260101-000000-00000000")


@posix_only
def test_a_link_in_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    store = ArtifactStore(tmp_path / "a")
    keep(store, b"x")
    (store.directory / "20260101-000000-00000000.out").symlink_to(tmp_path / "secret")
    with pytest.raises(ArtifactNotFound):
        store.read("20260101-000000-00000000")
    assert len(store.list()) == 1
    store.prune(max_age=0, max_total=0)
    assert (tmp_path / "secret").exists()


# Pruning


def test_old_artifacts_are_pruned(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    old, older, young = (keep(store, b"x", age=age * DAY) for age in (8, 9, 6))
    assert store.prune() == [older.id, old.id]
    assert [entry.id for entry in store.list()] == [young.id]
    assert store.prune(max_age=5 * DAY) == [young.id]


def test_oldest_artifacts_are_pruned_until_the_rest_fits(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a", max_total=250)
    made = [keep(store, b"x" * 100, age=age) for age in (10, 40, 20, 30)]
    assert store.prune() == [made[1].id, made[3].id]
    assert store.prune() == []
    assert store.prune(max_total=200) == []
    assert store.prune(max_total=0) == [made[2].id, made[0].id]


def test_pruning_removes_only_artifacts(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a", max_age=0, max_total=0)
    keep(store, b"x", age=60)
    for name in ("notes.txt", "notes.out", "20260101-000000-00000000.out.bak", "a.part"):
        (store.directory / name).write_bytes(b"x")
        make_older(store.directory / name, 30 * DAY)
    assert len(store.prune()) == 1
    assert len(list(store.directory.iterdir())) == 4


def test_new_artifacts_prune_at_intervals(tmp_path: Path) -> None:
    old = keep(ArtifactStore(tmp_path / "a"), b"x", age=8 * DAY)
    store = ArtifactStore(tmp_path / "a")
    keep(store, b"x")
    assert not old.path.exists()
    made = keep(store, b"x", age=8 * DAY)  # within the same minute
    keep(store, b"x")
    assert made.path.exists()


def test_artifact_age_counts_from_its_end(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    writer = store.create()
    writer.write(b"x")
    make_older(store.directory / f"{writer.id}.part", 30 * DAY)
    started = time.time()
    artifact = writer.finish()
    assert store.prune() == []
    assert store.get(artifact.id).modified >= started - 2  # the file system's clock is coarser


# Several at once


def test_pruning_spares_unfinished_artifact_of_another_store(tmp_path: Path) -> None:
    one, other = ArtifactStore(tmp_path / "a"), ArtifactStore(tmp_path / "a")
    writer = one.create()
    writer.write(b"x")
    make_older(one.directory / f"{writer.id}.part", 30 * DAY)
    assert other.prune(max_age=0, max_total=0) == []
    assert one.prune(max_age=0, max_total=0) == []
    assert other.read(writer.finish().id) == b"x"


WRITE_AND_WAIT = """
import sys
from pathlib import Path
from anyshell.output.artifacts import ArtifactStore

writer = ArtifactStore(Path(sys.argv[1])).create()
writer.write(b"x")
print(writer.id, flush=True)
sys.stdin.readline()
writer.finish()
"""


def test_pruning_spares_unfinished_artifact_of_another_process(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    with child(WRITE_AND_WAIT, store.directory) as process:
        assert process.stdout is not None
        writing = process.stdout.readline().strip()
        make_older(store.directory / f"{writing}.part", 30 * DAY)
        assert store.prune(max_age=0, max_total=0) == []
        process.communicate("\n")
    assert process.returncode == 0
    assert store.read(writing) == b"x"


def test_unfinished_artifact_of_a_dead_process_is_pruned_after_a_day(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    with child(WRITE_AND_WAIT, store.directory) as process:
        assert process.stdout is not None
        left = process.stdout.readline().strip()
        process.kill()
    part = store.directory / f"{left}.part"
    make_older(part, DAY - 600)
    assert store.prune(max_age=0, max_total=0) == []
    make_older(part, 1200)
    assert store.prune() == [left]
    assert not part.exists()


WRITE_AND_PRUNE = """
import sys
from pathlib import Path
from anyshell._exceptions import ArtifactNotFound
from anyshell.output.artifacts import ArtifactStore

store = ArtifactStore(Path(sys.argv[1]))
sys.stdin.readline()
for turn in range(200):
    writer = store.create()
    writer.write(b"x" * 100)
    writer.finish()
    try:
        store.read(writer.id)
    except ArtifactNotFound:
        pass
    store.list()
    store.prune(max_total=300)
"""


def test_processes_can_write_and_prune_one_directory_concurrently(tmp_path: Path) -> None:
    processes = [child(WRITE_AND_PRUNE, tmp_path / "new" / "a") for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        with process:
            process.communicate()
        assert process.returncode == 0
    store = ArtifactStore(tmp_path / "new" / "a")
    store.prune(max_total=300)
    assert [entry.size for entry in store.list()] == [100, 100, 100]
    assert [file.suffix for file in store.directory.iterdir()] == [".out"] * 3
