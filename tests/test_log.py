"""Raw output is read again by offset, from memory or from a file."""

from __future__ import annotations

import random
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from anyshell import ArtifactStore
from anyshell.output import OutputLog
from anyshell.output.text import log

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MEMORY", 50)


def check(kept: OutputLog, whole: bytes, chance: random.Random) -> int:
    """Read all bytes from many offsets; return the number of missing bytes."""
    assert kept.total == len(whole)
    for _ in range(10):
        offset, length = chance.randrange(len(whole) + 1), chance.randrange(1, 300)
        start, data = kept.read(offset, length)
        assert start >= offset
        assert data == whole[start : start + len(data)]
        assert data or start == len(whole)
    offset = missing = 0
    while offset < len(whole):
        start, data = kept.read(offset, 70)
        missing += start - offset
        offset = start + len(data)
    return missing


@pytest.mark.parametrize("max_size", [64 * 1024**2, 2_000, 100, 1, None])
def test_bytes_read_equal_the_bytes_written(tmp_path: Path, max_size: int | None) -> None:
    store = None if max_size is None else ArtifactStore(tmp_path / "artifacts", max_size=max_size)
    for seed in range(10):
        chance = random.Random(seed)
        kept, whole = OutputLog(store), b""
        for _ in range(60):
            piece = chance.randbytes(chance.choice([1, 7, 60, 300]))
            kept.write(piece)
            whole += piece
            missing = check(kept, whole, chance)
            assert missing == 0 or max_size is None or max_size <= 2_000
            assert kept.tail(30) == whole[-30:]
        kept.finish()
        missing = check(kept, whole, chance)
        assert (missing == 0) == (max_size == 64 * 1024**2)
        assert max_size is None or len(whole) - missing <= max_size
        kept.discard()


def test_short_output_has_no_file_unless_kept(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    kept = OutputLog(store)
    kept.write(b"short")
    kept.finish()
    assert not store.directory.exists()
    assert kept.keep().path.read_bytes() == b"short"
    assert kept.read(1, 3) == (1, b"hor")
    kept.discard()
    assert len(store.list()) == 1


def test_discarded_log_leaves_no_file(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    kept = OutputLog(store)
    kept.write(b"x" * 1000)
    assert len(list(store.directory.iterdir())) == 1
    kept.discard()
    assert list(store.directory.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot go there")
def test_removed_file_leaves_missing_bytes_without_a_failure(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    kept = OutputLog(store)
    kept.write(b"x" * 1000 + b"the end")
    for file in store.directory.iterdir():
        file.unlink()
    start, data = kept.read(0, 2000)
    assert start > 0
    assert data.endswith(b"the end")
    kept.finish()
    assert kept.tail(7) == b"the end"
    with pytest.raises(FileNotFoundError):
        kept.keep()


def test_memory_does_not_grow_with_the_output(tmp_path: Path) -> None:
    kept = OutputLog(ArtifactStore(tmp_path / "artifacts", max_size=1024**2))
    piece = b"x" * 64 * 1024
    tracemalloc.start()
    try:
        for _ in range(500):
            kept.write(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1024**2
    kept.discard()
