"""The contract of a host's files, over every implementation, and the additional guarantees of local files."""

from __future__ import annotations

import asyncio
import errno
import ntpath
import os
import posixpath
import stat
import sys
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from anyshell import InvalidCommand
from anyshell._files import HostFiles
from anyshell._types import FileEntry, FileStat, HostInfo
from anyshell.backends.local.files import LocalFiles

from .conftest import row
from .file_hosts import IMPLEMENTATIONS, needs_links, reached

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from anyshell.abc import Files

pytestmark = pytest.mark.anyio

POSIX = "permissions, owners, pipes and limits are POSIX's"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason=POSIX)
MIB = 1024 * 1024
NAMES = ["naïve ☃ 文件", "  spaces", "-rf", "it's 100% $HOME `x` ^&;", ".hidden", "e\u0301", "🙂"]
if sys.platform != "win32":  # Windows does not allow these names
    NAMES += ["two\nlines", "  spaces ", '"quoted"', "a\\b", "nul"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=IMPLEMENTATIONS)
async def files(request: pytest.FixtureRequest) -> AsyncIterator[Files]:
    """One implementation of the contract, on a host that shares the file system of the test."""
    async with reached(request.param) as implementation:
        yield implementation


@pytest.fixture
def host(files: Files, tmp_path: Path) -> HostFiles:
    return HostFiles(files, facts(tmp_path), str(tmp_path))


@pytest.fixture
def umask_027() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def facts(home: Path) -> HostInfo:
    return HostInfo(
        os="windows" if sys.platform == "win32" else "linux",
        arch="x86_64",
        name="Test",
        version="1",
        hostname="here",
        user="me",
        home=str(home / "home"),
        directory=str(home),
    )


async def names(files: Files, directory: str) -> list[str]:
    return sorted(entry.name for entry in await files.list(directory))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- the contract: primitives on bytes


async def test_written_content_is_read_back(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    content = bytes(range(256)) * 5000  # more than one chunk, with every byte, including CRLF and NUL
    await files.write(path, content)
    assert await files.read(path) == content


async def test_an_empty_file_is_written_and_read(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    await files.write(path, b"")
    assert await files.read(path) == b""
    assert (await files.stat(path)).size == 0


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, None, b"0123456789"),
        (3, None, b"3456789"),
        (3, 4, b"3456"),
        (8, 100, b"89"),
        (10, None, b""),
        (1000, 5, b""),
        (0, 0, b""),
    ],
)
async def test_range_ends_at_the_end_of_the_file(
    files: Files, tmp_path: Path, offset: int, length: int | None, expected: bytes
) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    assert await files.read(str(tmp_path / "file"), offset=offset, length=length) == expected


async def test_a_range_may_span_chunks(files: Files, tmp_path: Path) -> None:
    content = os.urandom(3 * MIB)
    (tmp_path / "file").write_bytes(content)
    read = await files.read(str(tmp_path / "file"), offset=MIB - 1, length=MIB + 2)
    assert read == content[MIB - 1 : 2 * MIB + 1]


async def test_writing_replaces_and_appending_adds(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    await files.write(path, b"a long first content")
    await files.write(path, b"short")
    await files.write(path, b" and more", append=True)
    assert await files.read(path) == b"short and more"
    await files.write(str(tmp_path / "new"), b"made by appending", append=True)
    assert await files.read(str(tmp_path / "new")) == b"made by appending"


async def test_stat_returns_kind_size_mode_and_time(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    status = await files.stat(str(tmp_path / "file"))
    assert (status.kind, status.size) == ("file", 5)
    assert status.mode == mode(tmp_path / "file")
    assert status.modified == pytest.approx((tmp_path / "file").stat().st_mtime, abs=1)
    assert (await files.stat(str(tmp_path))).kind == "directory"


@needs_links
async def test_stat_follows_a_link_by_default(files: Files, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert (await files.stat(str(tmp_path / "link"))).kind == "directory"
    assert (await files.stat(str(tmp_path / "link"), follow=False)).kind == "link"
    assert (await files.stat(str(tmp_path / "dangling"), follow=False)).kind == "link"
    with pytest.raises(FileNotFoundError):
        await files.stat(str(tmp_path / "dangling"))


async def test_a_directory_is_listed_without_itself_and_its_parent(files: Files, tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).touch()
    assert await names(files, str(tmp_path)) == [".hidden", "a", "b"]


async def test_any_name_can_be_written_listed_renamed_and_removed(files: Files, tmp_path: Path) -> None:
    directory = str(tmp_path)
    for name in NAMES:
        with row(name):
            path = str(tmp_path / name)
            await files.write(path, b"x")
            assert await names(files, directory) == [name]
            assert await files.read(path) == b"x"
            await files.rename(path, path + "2")
            assert await names(files, directory) == [name + "2"]
            await files.remove(path + "2")
            assert await names(files, directory) == []


async def test_missing_file_error_has_errno_and_name(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "missing")
    calls = [
        files.stat(path),
        files.list(path),
        files.read(path),
        files.remove(path),
        files.remove(path, recursive=True),
        files.rename(path, path + "2"),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundError) as caught:
            await call
        assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, path)


async def test_missing_directory_error_has_the_given_path(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "file")
    for call in (files.write(path, b""), files.write(path, b"", append=True), files.mkdir(path)):
        with pytest.raises(FileNotFoundError) as caught:
            await call
        assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, path)
        assert "tmp" not in str(caught.value).replace(path, "")


async def test_directory_cannot_be_read_or_written(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "directory")
    await files.mkdir(path)
    for call in (files.read(path), files.write(path, b""), files.write(path, b"", append=True)):
        with pytest.raises(IsADirectoryError) as caught:
            await call
        assert (caught.value.errno, caught.value.filename) == (errno.EISDIR, path)


async def test_file_cannot_be_listed(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    await files.write(path, b"")
    with pytest.raises(NotADirectoryError) as caught:
        await files.list(path)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOTDIR, path)


async def test_mkdir_makes_parents_only_when_asked(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b" / "c")
    with pytest.raises(FileNotFoundError):
        await files.mkdir(path)
    await files.mkdir(path, parents=True)
    assert (await files.stat(path)).kind == "directory"


@pytest.mark.parametrize("parents", [False, True])
async def test_mkdir_with_exist_ok_accepts_a_directory_only(
    files: Files, tmp_path: Path, parents: bool
) -> None:
    directory, file = str(tmp_path / "directory"), str(tmp_path / "file")
    await files.mkdir(directory)
    await files.write(file, b"")
    await files.mkdir(directory, parents=parents, exist_ok=True)
    for path, exist_ok in ((directory, False), (file, False), (file, True)):
        with pytest.raises(FileExistsError) as caught:
            await files.mkdir(path, parents=parents, exist_ok=exist_ok)
        assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, path)


async def test_a_full_directory_is_removed_only_when_asked(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "directory"
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "file").touch()
    with pytest.raises(OSError, match="directory") as caught:
        await files.remove(str(path))
    assert caught.value.errno in (errno.ENOTEMPTY, errno.EEXIST)
    assert (path / "sub" / "file").exists()
    await files.remove(str(path), recursive=True)
    assert not path.exists()


async def test_an_empty_directory_is_removed(files: Files, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    await files.remove(str(tmp_path / "directory"))
    assert not (tmp_path / "directory").exists()


@needs_links
@pytest.mark.parametrize("ending", ["", os.sep])
async def test_removing_never_follows_a_link(files: Files, tmp_path: Path, ending: str) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep me")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(precious)
    (tmp_path / "link").symlink_to(precious)

    await files.remove(str(tree) + ending, recursive=True)
    await files.remove(str(tmp_path / "link") + ending, recursive=True)
    assert sorted(os.listdir(tmp_path)) == ["precious"]
    assert (precious / "file").read_text() == "keep me"


@pytest.mark.parametrize("last", [".", ".."])
async def test_removing_refuses_a_path_that_ends_in_dots(files: Files, tmp_path: Path, last: str) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match="Invalid argument"):
        await files.remove(posixpath.join(str(tmp_path), "a", "b", last), recursive=True)
    assert (tmp_path / "a" / "b").is_dir()


async def test_renaming_replaces_a_file(files: Files, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    await files.write(source, b"new")
    await files.write(target, b"old")
    await files.rename(source, target)
    assert await names(files, str(tmp_path)) == ["target"]
    assert await files.read(target) == b"new"


@needs_links
async def test_writing_to_a_link_writes_its_target(files: Files, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(os.path.join("sub", "target"))
    (tmp_path / "chain").symlink_to("link")
    await files.write(str(tmp_path / "chain"), b"new")
    await files.write(str(tmp_path / "link"), b"er", append=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "chain").is_symlink()
    assert (tmp_path / "sub" / "target").read_bytes() == b"newer"
    assert os.listdir(tmp_path / "sub") == ["target"]


@needs_links
async def test_writing_to_a_dangling_link_creates_its_target(files: Files, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    await files.write(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


@posix_only
async def test_cycle_of_links_is_an_error(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for call in (files.read(str(tmp_path / "a")), files.write(str(tmp_path / "a"), b"")):
        with pytest.raises(OSError, match="symbolic links") as caught:
            await call
        assert caught.value.errno == errno.ELOOP
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@posix_only
@pytest.mark.parametrize("bits", [0o600, 0o640, 0o755, 0o777])
async def test_a_replaced_file_keeps_its_permissions(files: Files, tmp_path: Path, bits: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(bits)
    await files.write(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert mode(path) == bits


async def test_replacing_leaves_no_temporary_file(files: Files, tmp_path: Path) -> None:
    for _ in range(3):
        await files.write(str(tmp_path / "file"), b"x")
    assert os.listdir(tmp_path) == ["file"]


async def test_concurrent_reader_never_sees_a_partial_file(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    contents = [bytes([letter]) * (300_000 + letter) for letter in b"abc"]
    await files.write(path, contents[0])
    writing = True

    async def replace() -> None:
        nonlocal writing
        for turn in range(40):  # the reader saw a write in place at the 24th at the latest
            await files.write(path, contents[turn % 3])
        writing = False

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(replace)
        seen = set()
        while writing:
            content = await files.read(path)
            assert content in contents
            seen.add(content)
    assert len(seen) > 1
    assert os.listdir(tmp_path) == ["file"]


async def test_concurrent_writers_leave_one_complete_content(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    contents = [bytes([letter]) * 200_000 for letter in range(20)]
    async with anyio.create_task_group() as tasks:
        for content in contents:
            tasks.start_soon(files.write, path, content)
    assert await files.read(path) in contents
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("scoped", [True, False], ids=["anyio", "asyncio"])
async def test_cancelled_write_is_atomic(files: Files, tmp_path: Path, scoped: bool) -> None:
    path = tmp_path / "file"
    old, new = b"old", b"n" * (24 * MIB)
    for milliseconds in range(8):
        path.write_bytes(old)
        if scoped:
            with anyio.move_on_after(milliseconds / 1000):
                await files.write(str(path), new)
        else:
            task = asyncio.create_task(files.write(str(path), new))
            await asyncio.wait([task], timeout=milliseconds / 1000)
            task.cancel()
            await asyncio.wait([task])
        # No write continues in the background: the content at the return stays.
        assert os.listdir(tmp_path) == ["file"]
        assert path.read_bytes() in (old, new)


# --- the contract: what is built on the primitives


async def test_paths_are_relative_to_the_directory_and_the_home(host: HostFiles, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    await host.write("relative", b"1")
    await host.write("~/below home", b"2")
    await host.write(tmp_path / "absolute", b"3")
    assert (tmp_path / "relative").read_bytes() == b"1"
    assert (tmp_path / "home" / "below home").read_bytes() == b"2"
    assert await host.list() == ["absolute", "home", "relative"]
    assert await host.list("~") == ["below home"]
    await host.rename("relative", "~/renamed")
    assert await host.list("~") == ["below home", "renamed"]


@pytest.mark.parametrize("path", ["", "a\0b"])
async def test_invalid_path_is_refused(host: HostFiles, tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    calls = [
        host.stat(path),
        host.exists(path),
        host.list(path),
        host.read(path),
        host.write(path, b""),
        host.mkdir(path),
        host.remove(path, recursive=True),
        host.rename("file", path),
        host.glob("*", directory=path),
        host.glob(path),
    ]
    for call in calls:
        with pytest.raises(InvalidCommand, match=r"empty|NUL"):
            await call
    assert os.listdir(tmp_path) == ["file"]


async def test_text_keeps_line_endings_and_counts_characters(host: HostFiles, tmp_path: Path) -> None:
    text = "één\r\ntwo\rthree\n☃"
    assert await host.write_text("file", text) == len(text)
    assert (tmp_path / "file").read_bytes() == text.encode()
    assert await host.append_text("file", "\r\n🙂") == 3
    assert await host.read_text("file") == text + "\r\n🙂"


async def test_text_may_have_another_encoding(host: HostFiles, tmp_path: Path) -> None:
    assert await host.write_text("file", "é", encoding="latin-1") == 1
    assert (tmp_path / "file").read_bytes() == b"\xe9"
    assert await host.read_text("file", encoding="latin-1") == "é"
    assert await host.read_text("file", errors="replace") == "\ufffd"
    with pytest.raises(UnicodeDecodeError):
        await host.read_text("file")


async def test_unencodable_text_leaves_the_file_unchanged(host: HostFiles, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    for write in (host.write_text, host.append_text):
        with pytest.raises(UnicodeEncodeError):
            await write("file", "☃", encoding="ascii")
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", ["\n"]),
        ("one", ["one"]),
        ("one\ntwo\n", ["one\n", "two\n"]),
        (
            "one\r\ntwo\rstill\x0ctwo\u2028\x85\n\nend",
            ["one\r\n", "two\rstill\x0ctwo\u2028\x85\n", "\n", "end"],
        ),
    ],
)
async def test_lines_are_split_only_at_line_feeds(host: HostFiles, text: str, lines: list[str]) -> None:
    await host.write_text("file", text)
    assert await host.read_lines("file") == lines


async def test_oversized_file_is_read_in_ranges(files: Files, tmp_path: Path) -> None:
    host = HostFiles(files, facts(tmp_path), str(tmp_path), max_read=10)
    (tmp_path / "file").write_bytes(b"0123456789")
    assert await host.read("file") == b"0123456789"
    (tmp_path / "file").write_bytes(b"0123456789a")
    with pytest.raises(OSError, match=r"More than 10 bytes; read it in ranges") as caught:
        await host.read("file")
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "file"))
    with pytest.raises(OSError, match="ranges"):
        await host.read_text("file")
    assert await host.read("file", offset=1) == b"123456789a"
    assert await host.read("file", length=11) == b"0123456789a"


@pytest.mark.parametrize(("offset", "length"), [(-1, None), (0, -1)])
async def test_negative_range_is_refused(host: HostFiles, offset: int, length: int | None) -> None:
    with pytest.raises(InvalidCommand, match="0 or more"):
        await host.read("file", offset=offset, length=length)


async def test_existence_and_kind_are_reported(host: HostFiles, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    names = ["file", "directory", "missing", "file/below", "missing/below"]
    assert [name for name in names if await host.exists(name)] == ["file", "directory"]
    assert [name for name in names if await host.is_file(name)] == ["file"]
    assert [name for name in names if await host.is_dir(name)] == ["directory"]


@needs_links
async def test_existence_and_kind_follow_links(host: HostFiles, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("directory")
    (tmp_path / "dangling").symlink_to("nowhere")
    names = ["file", "directory", "link", "dangling", "missing", "file/below"]
    assert [name for name in names if await host.exists(name)] == ["file", "directory", "link"]
    assert [name for name in names if await host.is_file(name)] == ["file"]
    assert [name for name in names if await host.is_dir(name)] == ["directory", "link"]
    assert (await host.stat("link", follow=False)).kind == "link"


async def test_directories_are_made_and_removed(host: HostFiles, tmp_path: Path) -> None:
    await host.mkdir("a/b", parents=True)
    await host.mkdir("a/b", exist_ok=True)
    with pytest.raises(FileExistsError):
        await host.mkdir("a/b")
    await host.remove("a", recursive=True)
    assert os.listdir(tmp_path) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    names = ["a.py", "b.PY", "c1.txt", ".hidden.py", "[x].md", "new\nline.py", "src/d.py", "src/deep/e.py"]
    names += ["src/deep/.secret/f.py", ".git/g.py", "src/deep/er/h.py", "docs/i.md"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "src" / "dangling.py").symlink_to("nowhere")
    return tmp_path


GLOBS = [
    ("*.py", ["a.py", "new\nline.py"]),
    ("a.py", ["a.py"]),
    ("missing.py", []),
    ("*.rs", []),
    ("missing/*.py", []),
    ("a.py/*", []),
    ("a.py/**", []),
    (".*", [".git", ".hidden.py"]),
    (".*.py", [".hidden.py"]),
    ("[.]*", []),
    ("?.py", ["a.py"]),
    ("[a-b].*", ["a.py", "b.PY"]),
    ("[!a].PY", ["b.PY"]),
    ("c[0-9].txt", ["c1.txt"]),
    ("[[]x].md", ["[x].md"]),
    ("[x].md", []),
    ("src/*.py", ["src/dangling.py", "src/d.py"]),
    ("./src//d.py", ["src/d.py"]),
    ("src/../a.py", ["src/../a.py"]),
    ("*/[de].py", ["src/d.py"]),
    ("*/*/[de].py", ["loop/src/d.py", "src/deep/e.py"]),
    ("*/", ["docs", "loop", "src"]),
    ("**/", ["docs", "loop", "src", "src/deep", "src/deep/er"]),
    ("**/*.md", ["[x].md", "docs/i.md"]),
    ("**/e.py", ["src/deep/e.py"]),
    ("src/**/*.py", ["src/d.py", "src/dangling.py", "src/deep/e.py", "src/deep/er/h.py"]),
    (
        "src/**",
        ["src/d.py", "src/dangling.py", "src/deep", "src/deep/e.py", "src/deep/er", "src/deep/er/h.py"],
    ),
    ("**/deep/**/h.py", ["src/deep/er/h.py"]),
    ("**/**/h.py", ["src/deep/er/h.py"]),
    ("**/.secret/*", ["src/deep/.secret/f.py"]),
    (".git/*.py", [".git/g.py"]),
]
"""Patterns, and the matches of each in `tree`."""


@posix_only  # Windows does not allow these names
async def test_glob_matches_like_a_shell(host: HostFiles, tree: Path) -> None:
    for pattern, found in GLOBS:
        with row(pattern):
            assert await host.glob(pattern) == sorted(f"{tree}/{name}" for name in found)


GLOBS_WITH_HIDDEN = [
    ("*.py", [".hidden.py", "a.py", "new\nline.py"]),
    ("*/g.py", [".git/g.py"]),
    ("**/f.py", ["src/deep/.secret/f.py"]),
    (
        "src/deep/**",
        ["src/deep/.secret", "src/deep/.secret/f.py", "src/deep/e.py", "src/deep/er", "src/deep/er/h.py"],
    ),
    ("?git/", [".git"]),
]
"""Likewise, including hidden names."""


@posix_only
async def test_glob_matches_hidden_names_on_request(host: HostFiles, tree: Path) -> None:
    for pattern, found in GLOBS_WITH_HIDDEN:
        with row(pattern):
            assert await host.glob(pattern, hidden=True) == sorted(f"{tree}/{name}" for name in found)


async def test_glob_takes_its_directory_literally(host: HostFiles, tmp_path: Path) -> None:
    for directory in ("a[1]", "a1"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "x.txt").touch()
    assert await host.glob("*.txt", directory="a[1]") == [str(tmp_path / "a[1]" / "x.txt")]
    assert await host.glob("**/x.txt", directory=tmp_path / "a[1]") == [str(tmp_path / "a[1]" / "x.txt")]
    assert await host.glob("a[1]/*.txt") == [str(tmp_path / "a1" / "x.txt")]


async def test_glob_needs_a_directory_to_look_in(host: HostFiles, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError) as missing:
        await host.glob("*", directory="missing")
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, str(tmp_path / "missing"))
    with pytest.raises(NotADirectoryError) as none:
        await host.glob("*", directory="file")
    assert (none.value.errno, none.value.filename) == (errno.ENOTDIR, str(tmp_path / "file"))


@pytest.mark.parametrize("pattern", ["/etc/*", "~/*", "~"])
async def test_a_pattern_is_relative(host: HostFiles, pattern: str) -> None:
    with pytest.raises(InvalidCommand, match="directory="):
        await host.glob(pattern)


async def test_glob_looks_at_a_bounded_number_of_entries(files: Files, tmp_path: Path) -> None:
    host = HostFiles(files, facts(tmp_path), str(tmp_path), max_entries=100)
    for number in range(99):
        (tmp_path / f"{number:02}").touch()
    (tmp_path / "sub").mkdir()
    assert len(await host.glob("**")) == 100
    (tmp_path / "sub" / "one").touch()
    assert len(await host.glob("*")) == 100
    with pytest.raises(InvalidCommand, match="more than 100 directory entries"):
        await host.glob("**")


async def test_a_windows_host_has_windows_paths() -> None:
    """Names are case-insensitive, both slashes separate, and drives are absolute, on any local machine."""

    contents = {"C:\\src": ["A.py", "sub"], "C:\\src\\sub": ["b.PY"]}

    class WindowsFiles(LocalFiles):
        async def list(self, path: str) -> Sequence[FileEntry]:
            return [
                FileEntry(name, "directory" if ntpath.join(path, name) in contents else "file")
                for name in contents[path]
            ]

        async def stat(self, path: str, *, follow: bool = True) -> FileStat:
            if path not in contents and ntpath.basename(path) not in contents[ntpath.dirname(path)]:
                raise FileNotFoundError(errno.ENOENT, "missing", path)
            return FileStat("directory" if path in contents else "file", 0, 0, 0.0)

    info = HostInfo(
        os="windows",
        arch="arm64",
        name="Windows",
        version="11",
        hostname="there",
        user="me",
        home="C:\\Users\\me",
        directory="C:\\",
    )
    host = HostFiles(WindowsFiles(), info, "C:\\src")
    assert await host.glob("**/*.py") == ["C:\\src\\A.py", "C:\\src\\sub\\b.PY"]
    assert await host.glob("sub\\*.py") == ["C:\\src\\sub\\b.PY"]
    assert await host.is_file("sub\\b.PY")
    assert await host.glob("SUB/B.py") == []  # only the case distinguishes the duplicate
    assert await host.glob("nul") == await host.glob("sub\\con.py") == await host.glob("A.py.") == []
    for pattern in ("C:\\*", "\\x", "C:*"):
        with pytest.raises(InvalidCommand, match="not relative"):
            await host.glob(pattern)
    for path in ("nul", "sub/aux.txt", "A.py:stream", "A.py.", "sub \\b.PY", "D:x", "\\\\.\\C:", "a*"):
        with pytest.raises(InvalidCommand):
            await host.stat(path)


# --- what the local file system adds


@posix_only
@pytest.mark.usefixtures("umask_027")
async def test_a_new_file_honours_the_umask(tmp_path: Path) -> None:
    await LocalFiles().write(str(tmp_path / "written"), b"x")
    await LocalFiles().write(str(tmp_path / "appended"), b"x", append=True)
    assert mode(tmp_path / "written") == 0o640
    assert mode(tmp_path / "appended") == 0o640


async def test_a_replaced_file_keeps_its_owner(tmp_path: Path) -> None:
    if sys.platform == "win32":  # not a mark, so that mypy reads it as well
        pytest.skip(POSIX)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    try:
        os.chown(path, 12345, 23456)
    except PermissionError:
        pytest.skip("only root may give a file away")
    await LocalFiles().write(str(path), b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


@pytest.mark.parametrize("append", [False, True])
async def test_a_protected_file_is_not_written(ordinary_directory: Path, append: bool) -> None:
    path = ordinary_directory / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError) as caught:
        await LocalFiles().write(str(path), b"new", append=append)
    assert (caught.value.errno, caught.value.filename) == (errno.EACCES, str(path))
    assert path.read_bytes() == b"old"


async def test_a_protected_file_is_renamed_replaced_and_removed(ordinary_directory: Path) -> None:
    """Permissions of the directory decide; a repository has many read-only files."""
    directory = ordinary_directory / "tree" / "deep"
    directory.mkdir(parents=True)
    for name in ("a", "b", "c"):
        (directory / name).write_bytes(name.encode())
        (directory / name).chmod(0o444)
    local = LocalFiles()
    await local.rename(str(directory / "a"), str(directory / "b"))
    assert (directory / "b").read_bytes() == b"a"
    await local.remove(str(directory / "b"))
    assert os.listdir(directory) == ["c"]
    await local.remove(str(ordinary_directory / "tree"), recursive=True)
    assert os.listdir(ordinary_directory) == []


async def test_a_pipe_and_a_device_are_neither_read_nor_written(tmp_path: Path) -> None:
    if sys.platform == "win32":  # not a mark, so that mypy reads it as well
        pytest.skip(POSIX)
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    local = LocalFiles()
    assert (await local.stat(pipe)).kind == "other"
    for path in (pipe, os.devnull):
        for call in (local.read(path), local.write(path, b"x"), local.write(path, b"x", append=True)):
            with pytest.raises(OSError, match="Not a regular file") as caught:
                await call
            assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, path)
    await local.remove(pipe)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc here")
async def test_file_with_a_wrong_size_is_read_completely() -> None:
    assert (await LocalFiles().stat("/proc/self/status")).size == 0
    assert b"VmRSS" in await LocalFiles().read("/proc/self/status")


async def test_a_write_that_fails_midway_leaves_the_old_content(tmp_path: Path) -> None:
    if sys.platform == "win32":  # not a mark, so that mypy reads it as well
        pytest.skip(POSIX)
    import resource

    path = tmp_path / "file"
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MIB // 2, hard))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            await LocalFiles().write(str(path), b"x" * (3 * MIB))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("scoped", [True, False], ids=["anyio", "asyncio"])
async def test_change_cancelled_in_the_queue_never_happens(tmp_path: Path, scoped: bool) -> None:
    local, path = LocalFiles(), tmp_path / "file"
    path.write_bytes(b"old")
    threads = anyio.to_thread.current_default_thread_limiter()
    before, threads.total_tokens = threads.total_tokens, 1
    await threads.acquire()  # the limiter gives no other task a thread
    try:
        for call in (local.write(str(path), b"new"), local.remove(str(path)), local.mkdir(str(path) + "2")):
            with anyio.CancelScope() as scope:
                task = asyncio.current_task()
                assert task is not None
                loop = asyncio.get_running_loop()
                loop.call_later(0.01, scope.cancel if scoped else task.cancel)
                loop.call_later(0.02, threads.release_on_behalf_of, task)
                if scoped:
                    await call
                else:
                    with pytest.raises(asyncio.CancelledError):
                        await call
            await threads.acquire()
    finally:
        threads.release()
        threads.total_tokens = before
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"old"


async def test_write_cancelled_twice_is_still_awaited(tmp_path: Path) -> None:
    path = tmp_path / "file"
    task = asyncio.create_task(LocalFiles().write(str(path), b"x" * (64 * MIB)))
    while not os.listdir(tmp_path):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert os.listdir(tmp_path) in ([], ["file"])
    if path.exists():
        assert path.stat().st_size == 64 * MIB


async def test_event_loop_runs_while_a_file_is_written(tmp_path: Path) -> None:
    task = asyncio.create_task(LocalFiles().write(str(tmp_path / "file"), b"x" * (32 * MIB)))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    assert turns > 10
