"""Copying files and directories between this machine and a host, over every implementation of a host's files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import posixpath
import socket
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from anyshell import InvalidCommand
from anyshell._exceptions import BackendUnavailable
from anyshell._files import HostFiles
from anyshell._transfer import Place, copy
from anyshell._types import FileEntry, FileStat
from anyshell.backends.local.files import LocalFiles
from anyshell.testing import FakeFiles

from .file_hosts import IMPLEMENTATIONS, needs_links, reached
from .test_files import facts, mode, posix_only

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
    from pathlib import Path

    from anyshell._types import CopyProgress
    from anyshell.abc import Files

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
NAME = "naïve\nname ☃ -x"
LINKS = {"sub/link": "script", "dangling": "nowhere/at all", "out": "/etc"}
if sys.platform == "win32":  # Windows has no such name, and does not let every user make links
    NAME, LINKS = NAME.replace("\n", " "), {}


@pytest.fixture(params=IMPLEMENTATIONS)
async def files(request: pytest.FixtureRequest) -> AsyncIterator[Files]:
    async with reached(request.param) as implementation:
        yield implementation


@pytest.fixture
def host(files: Files, there: Path) -> HostFiles:
    return HostFiles(files, facts(there), str(there), here=LocalFiles())


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The host's directory, which is also on this machine, so that a test sees its contents."""
    (tmp_path / "there").mkdir()
    return tmp_path / "there"


def plant(top: Path) -> None:
    """A tree with every kind of file that copying handles, except special files."""
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / ".hidden").mkdir()
    (top / "big").write_bytes(os.urandom(2 * MIB + 17))
    (top / "none").write_bytes(b"")
    (top / "sub" / "script").write_bytes(b"#!/bin/sh\n")
    (top / "sub" / "script").chmod(0o751)
    (top / ".hidden" / ".secret").write_bytes(b"secret")
    (top / ".hidden" / ".secret").chmod(0o600)
    (top / "protected").write_bytes(b"")
    (top / "protected").chmod(0o444)
    (top / "sub" / "deep" / NAME).write_bytes(b"named")
    for link, target in LINKS.items():
        (top / link).symlink_to(target)
    (top / "sub").chmod(0o755)
    (top / ".hidden").chmod(0o500)


def seen(top: Path) -> dict[str, object]:
    """The contents of a tree: kinds, permission bits and file contents."""
    found: dict[str, object] = {}
    for directory, directories, files in os.walk(top):
        for name in [*directories, *files]:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            what: object = "directory"
            if stat.S_ISLNK(status.st_mode):
                what = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    what = file.read()
            bits = 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
            found[os.path.relpath(path, top)] = (what, bits)
    return found


@pytest.mark.parametrize("way", ["upload", "download"])
async def test_directory_arrives_unchanged(host: HostFiles, here: Path, there: Path, way: str) -> None:
    source, target = (here, there) if way == "upload" else (there, here)
    (source / "tree").mkdir()
    plant(source / "tree")
    call = host.upload if way == "upload" else host.download
    result = await call(source / "tree", target / "copy")
    assert seen(target / "copy") == seen(source / "tree")
    assert (result.files, result.links, result.directories, result.skipped) == (6, len(LINKS), 5, ())
    assert result.bytes == 2 * MIB + 17 + 10 + 6 + 5
    assert result.path == str(target / "copy")


@pytest.mark.parametrize("way", ["upload", "download"])
async def test_a_file_arrives_with_its_permissions(
    host: HostFiles, here: Path, there: Path, way: str
) -> None:
    source, target = (here, there) if way == "upload" else (there, here)
    (source / "file").write_bytes(b"content")
    (source / "file").chmod(0o640)
    call = host.upload if way == "upload" else host.download
    result = await call(source / "file", target / "copy")
    assert (target / "copy").read_bytes() == b"content"
    assert mode(target / "copy") == mode(source / "file")
    assert os.listdir(target) == ["copy"]
    assert (result.files, result.directories, result.bytes) == (1, 0, 7)


async def test_a_copy_can_keep_the_times(host: HostFiles, here: Path, there: Path) -> None:
    (here / "tree" / "shut").mkdir(parents=True)
    (here / "tree" / "shut" / "file").write_bytes(b"content")
    paths = ["tree/shut/file", "tree/shut", "tree"]
    for number, path in enumerate(paths, 1):
        os.utime(here / path, (number * 10**8, number * 10**8))
    source, target = host._local(here / "tree"), host._remote(there)
    await copy(source, target, keep_times=True)
    assert [(there / path).stat().st_mtime for path in paths] == [1e8, 2e8, 3e8]
    with pytest.raises(FileNotFoundError):
        await target.files.set_modified(str(there / "gone"), 1e8)
    assert os.listdir(there) == ["tree"]


async def test_copy_goes_into_an_existing_directory(host: HostFiles, here: Path, there: Path) -> None:
    (here / "tree").mkdir()
    (here / "tree" / "file").write_bytes(b"1")
    (there / "target").mkdir()
    assert (await host.upload(here / "tree", "target")).path == str(there / "target" / "tree")
    assert (there / "target" / "tree" / "file").read_bytes() == b"1"
    (here / "tree" / "file").write_bytes(b"2")
    (there / "target" / "tree" / "stays").touch()
    await host.upload(str(here / "tree") + os.sep, "target/")
    assert os.listdir(there / "target") == ["tree"]
    assert sorted(os.listdir(there / "target" / "tree")) == ["file", "stays"]
    assert (there / "target" / "tree" / "file").read_bytes() == b"2"


@pytest.mark.parametrize("way", ["upload", "download"])
async def test_existing_directory_becomes_the_copy_on_request(
    host: HostFiles, here: Path, there: Path, way: str
) -> None:
    source, target = (here, there) if way == "upload" else (there, here)
    (source / "tree").mkdir()
    (source / "tree" / "file").write_bytes(b"1")
    call = host.upload if way == "upload" else host.download
    for name in ("new", "target", "target"):
        (target / "target").mkdir(exist_ok=True)
        (target / "target" / "stays").touch()
        assert (await call(source / "tree", target / name, into=False)).path == str(target / name)
    assert sorted(os.listdir(target / "target")) == ["file", "stays"]
    with pytest.raises(IsADirectoryError):
        await call(source / "tree" / "file", target / "target", into=False)


@needs_links
async def test_link_to_a_directory_becomes_the_copy_on_request(
    host: HostFiles, here: Path, there: Path
) -> None:
    (here / "tree" / "sub").mkdir(parents=True)
    (there / "target").mkdir()
    (there / "link").symlink_to("target", target_is_directory=True)
    await host.upload(here / "tree", "link", into=False)
    assert os.listdir(there / "target") == ["sub"]
    (there / "target" / "sub").rmdir()
    (there / "target" / "sub").symlink_to(there, target_is_directory=True)
    with pytest.raises(NotADirectoryError):
        await host.upload(here / "tree", "link", into=False)


@needs_links
async def test_copy_goes_into_a_linked_directory(host: HostFiles, here: Path, there: Path) -> None:
    (here / "file").write_bytes(b"1")
    (there / "target").mkdir()
    (there / "link").symlink_to("target", target_is_directory=True)
    assert (await host.upload(here / "file", "link")).path == str(there / "link" / "file")
    assert (there / "target" / "file").read_bytes() == b"1"


async def test_a_protected_file_is_replaced_by_its_copy(host: HostFiles, here: Path, there: Path) -> None:
    (here / "tree").mkdir()
    (here / "tree" / "file").write_bytes(b"1")
    (here / "tree" / "file").chmod(0o444)
    for _ in range(2):
        await host.upload(here / "tree", ".")
    assert (there / "tree" / "file").read_bytes() == b"1"
    assert mode(there / "tree" / "file") == mode(here / "tree" / "file")


async def test_missing_source_or_target_directory_is_an_error(
    host: HostFiles, here: Path, there: Path
) -> None:
    (here / "file").touch()
    (here / "folder").mkdir()
    for call, name in (
        (host.upload(here / "missing", "x"), here / "missing"),
        (host.download("missing", here / "x"), there / "missing"),
        (host.upload(here / "file", "no/x"), there / "no" / "x"),
        (host.upload(here / "folder", "no/x"), there / "no" / "x"),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            await call
        assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(name))
    with pytest.raises(FileNotFoundError):
        await host.upload(here / "file", "x/")
    assert (await host.upload(here / "folder", "x/")).directories == 1


async def test_a_file_and_a_directory_never_replace_each_other(
    host: HostFiles, here: Path, there: Path
) -> None:
    (here / "x").mkdir()
    (here / "x" / "inner").write_bytes(b"new")
    (here / "y").write_bytes(b"new")
    (there / "file").write_bytes(b"old")
    (there / "target" / "y").mkdir(parents=True)
    with pytest.raises(NotADirectoryError):
        await host.upload(here / "x", "file")
    with pytest.raises(IsADirectoryError):
        await host.upload(here / "y", "target")
    (there / "target" / "x" / "inner").mkdir(parents=True)
    with pytest.raises(IsADirectoryError) as caught:
        await host.upload(here / "x", "target")
    assert caught.value.filename == str(there / "target" / "x" / "inner")
    assert (there / "file").read_bytes() == b"old"
    assert os.listdir(there / "target" / "x") == ["inner"]


@posix_only
async def test_special_files_are_left_out_and_named(host: HostFiles, here: Path, there: Path) -> None:
    if sys.platform == "win32":
        raise AssertionError("a test of POSIX alone")  # mypy finds no os.mkfifo there
    (here / "tree").mkdir()
    (here / "tree" / "file").touch()
    os.mkfifo(here / "tree" / "pipe")
    before = os.getcwd()
    os.chdir(here / "tree")  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    finally:
        os.chdir(before)
    result = await host.upload(here / "tree", "up")
    assert sorted(result.skipped) == [str(here / "tree" / "pipe"), str(here / "tree" / "socket")]
    assert os.listdir(there / "up") == ["file"]
    os.mkfifo(there / "up" / "pipe")
    result = await host.download("up", here / "down")
    assert result.skipped == (str(there / "up" / "pipe"),)
    with pytest.raises(OSError, match="Neither") as caught:
        await host.download("up/pipe", here / "down")
    assert caught.value.errno == errno.EINVAL
    for name, pipe in (("file", there / "up" / "pipe"), ("tree", there / "tree" / "file")):
        pipe.parent.mkdir(exist_ok=True)
        if not pipe.exists():
            os.mkfifo(pipe)
        source = here / "tree" / "file" if name == "file" else here / "tree"
        with pytest.raises(OSError, match="no device, pipe or socket") as caught:
            await host.upload(source, pipe if name == "file" else there)
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, str(pipe))
        assert pipe.is_fifo()


@needs_links
async def test_a_link_at_the_target_is_replaced_and_never_written_through(
    host: HostFiles, here: Path, there: Path
) -> None:
    (there / "tree" / "inner").mkdir(parents=True)
    for path in (there / "file", there / "tree" / "file", there / "tree" / "inner" / "file"):
        path.write_bytes(b"new")
    precious = here / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"old")
    (here / "tree").mkdir()
    (here / "tree" / "file").symlink_to(precious / "file")
    (here / "file").symlink_to(precious / "file")
    await host.download("file", here / "file")
    assert not (here / "file").is_symlink()
    (here / "tree" / "inner").symlink_to(precious)
    with pytest.raises(NotADirectoryError):
        await host.download("tree", here)
    (here / "tree" / "inner").unlink()
    await host.download("tree", here)
    assert not (here / "tree" / "file").is_symlink()
    assert (precious / "file").read_bytes() == b"old"


@needs_links
async def test_source_may_be_a_link(host: HostFiles, here: Path, there: Path) -> None:
    (there / "real").write_bytes(b"x")
    (there / "link").symlink_to("real")
    (there / "dangling").symlink_to("nowhere")
    await host.download("link", here / "copy")
    assert (here / "copy").read_bytes() == b"x"
    assert not (here / "copy").is_symlink()
    with pytest.raises(FileNotFoundError):
        await host.download("dangling", here / "other")


@pytest.mark.parametrize("way", ["upload", "download"])
@pytest.mark.parametrize("how", ["raise", "cancel"])
async def test_interrupted_copy_leaves_no_partial_file(
    host: HostFiles, here: Path, there: Path, way: str, how: str
) -> None:
    source, target = (here, there) if way == "upload" else (there, here)
    (source / "tree").mkdir()
    for name in ("a", "b", "c"):
        (source / "tree" / name).write_bytes(os.urandom(9 * MIB))
    (target / "tree").mkdir()
    for name in ("a", "b", "c"):
        (target / "tree" / name).write_bytes(b"old")
    begun = asyncio.Event()

    def on_progress(progress: CopyProgress) -> None:
        if progress.bytes_done:
            if how == "raise":
                raise RuntimeError("enough")
            begun.set()

    call = host.upload if way == "upload" else host.download
    task = asyncio.create_task(call(source / "tree", target, on_progress=on_progress))
    if how == "cancel":
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.result().files == 3
    else:
        with pytest.raises(RuntimeError, match="enough"):
            await task
    for name in ("a", "b", "c"):
        assert (target / "tree" / name).stat().st_size in (3, 9 * MIB)
    assert sorted(os.listdir(target / "tree")) == ["a", "b", "c"]


async def test_progress_is_reported_from_zero_to_the_total(host: HostFiles, here: Path) -> None:
    (here / "tree").mkdir()
    for number in range(12):
        (here / "tree" / f"{number}").write_bytes(b"x" * 1000)
    told: list[CopyProgress] = []
    await host.upload(here / "tree", "copy", on_progress=told.append)
    assert (told[0].bytes_done, told[0].files_done, told[0].path) == (0, 0, "")
    assert (told[-1].bytes_done, told[-1].files_done) == (12_000, 12)
    assert {(each.bytes_total, each.files_total) for each in told} == {(12_000, 12)}
    assert [each.bytes_done for each in told] == sorted(each.bytes_done for each in told)
    assert told[-1].path.startswith(str(here / "tree"))


async def test_local_paths_are_relative_to_this_process_and_its_home(
    host: HostFiles, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setenv("USERPROFILE", str(here))
    (there / "file").write_bytes(b"x")
    assert (await host.download("file", ".")).path == str(here / "file")
    assert (await host.download("file", "relative")).path == os.path.join(here, "relative")
    assert (await host.download("file", "~/home")).path == str(here / "home")
    assert (await host.download("file", "./")).path == str(here / "file")
    await host.upload(".", "all")
    assert sorted(os.listdir(there / "all")) == ["file", "home", "relative"]
    for path in ("", "a\0b"):
        with pytest.raises(InvalidCommand):
            await host.download("file", path)
        with pytest.raises(InvalidCommand):
            await host.upload(path, "file")
    with pytest.raises(InvalidCommand, match="no name"):
        await host.upload(os.sep, ".")


# --- a host that lies


class Hostile(FakeFiles):
    """Files that list the given entries, whether or not they exist."""

    def __init__(self, entries: Sequence[FileEntry]) -> None:
        super().__init__({"/evil/x": b"evil"})
        self._entries = entries

    async def list(self, path: str) -> Sequence[FileEntry]:
        return self._entries

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        return FileStat("directory" if path == "/evil" else "file", 4, 0o644, 0.0)

    async def readlink(self, path: str) -> str:
        return "/etc"


@pytest.mark.parametrize("name", ["../escaped", "..", ".", "/etc/x", "a/b", "", "a\0b"])
@pytest.mark.parametrize("kind", ["file", "directory", "link", "other"])
async def test_no_name_leads_out_of_the_target(tmp_path: Path, name: str, kind: str) -> None:
    entry = FileEntry(name, kind)  # type: ignore[arg-type]  # one of the four above
    source = Place(Hostile([entry]), posixpath, "/evil")
    with pytest.raises(OSError, match="cannot be written") as caught:
        await copy(source, Place(LocalFiles(), os.path, str(tmp_path / "target")))
    assert caught.value.errno == errno.EINVAL
    assert os.listdir(tmp_path) == []


async def test_link_and_directory_of_one_name_are_refused(tmp_path: Path) -> None:
    source = Place(Hostile([FileEntry("x", "link"), FileEntry("x", "directory")]), posixpath, "/evil")
    with pytest.raises(FileExistsError):
        await copy(source, Place(LocalFiles(), os.path, str(tmp_path / "target")))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "name",
    [
        "a\\b",
        "..\\x",
        "C:x",
        "file:stream",
        "NUL",
        "con.txt",
        "Lpt1",
        "aux .x",
        "COM¹",
        "end.",
        "end ",
        "a?",
        "\x1f",
    ],
)
async def test_names_with_a_special_meaning_on_windows_are_refused(name: str) -> None:
    import ntpath

    target = FakeFiles(directories=["C:\\"])
    with pytest.raises(OSError, match="cannot be written"):
        await copy(
            Place(Hostile([FileEntry(name, "file")]), posixpath, "/evil"), Place(target, ntpath, "C:\\target")
        )
    assert target.contents == {}


async def test_names_that_differ_in_case_are_refused_on_windows() -> None:
    import ntpath

    target = FakeFiles(directories=["C:\\"])
    source = Hostile([FileEntry("Readme", "link"), FileEntry("README", "file")])
    with pytest.raises(FileExistsError):
        await copy(Place(source, posixpath, "/evil"), Place(target, ntpath, "C:\\target"))


async def test_between_windows_and_posix_bits_and_links_are_translated() -> None:
    import ntpath

    class Windows(FakeFiles):
        """Files with one directory, with full access for every user, as Windows reports it."""

        async def list(self, path: str) -> Sequence[FileEntry]:
            return [FileEntry("x", "file"), FileEntry("x.exe", "file"), FileEntry("l", "link")]

        async def stat(self, path: str, *, follow: bool = True) -> FileStat:
            status = await super().stat(path, follow=follow)
            return FileStat(status.kind, status.size, 0o777 if path.endswith(".exe") else 0o666, 0.0)

    contents = {"C:\\a\\x": b"1", "C:\\a\\x.exe": b"2"}
    windows = Windows(contents, directories=["C:\\a"], links={"C:\\a\\l": "b\\x"})
    posix = FakeFiles(directories=["/t"])
    await copy(Place(windows, ntpath, "C:\\a"), Place(posix, posixpath, "/t/a"))
    assert posix.links == {"/t/a/l": "b/x"}
    assert [(await posix.stat(f"/t/a/{name}")).mode for name in ("x", "x.exe")] == [0o644, 0o755]
    back = FakeFiles(directories=["C:\\"])
    await copy(Place(posix, posixpath, "/t/a"), Place(back, ntpath, "C:\\b"))
    assert back.links == {"C:\\b\\l": "b\\x"}


@pytest.mark.parametrize("name", ["half \ud800", "\udfff"])
async def test_name_with_surrogates_is_refused(name: str) -> None:
    target = FakeFiles(directories=["/t"])
    source = Place(Hostile([FileEntry(name, "file")]), posixpath, "/evil")
    with pytest.raises(OSError, match="cannot be written"):
        await copy(source, Place(target, posixpath, "/t/x"))


# # --- fake files


async def test_fake_files_are_copied() -> None:
    source = FakeFiles({"/a/x": b"1", "/a/b/y": b"2"}, directories=["/a/empty"], links={"/a/l": "x"})
    target = FakeFiles(directories=["/t"])
    result = await copy(Place(source, posixpath, "/a"), Place(target, posixpath, "/t"))
    assert target.contents == {"/t/a/x": b"1", "/t/a/b/y": b"2"}
    assert target.links == {"/t/a/l": "x"}
    assert "/t/a/empty" in target.directories
    assert (result.files, result.links, result.path) == (2, 1, "/t/a")


async def test_target_that_fails_midway_keeps_no_partial_file(tmp_path: Path) -> None:
    class Full(LocalFiles):
        async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
            async def some() -> AsyncIterator[bytes]:
                async for chunk in chunks:
                    yield chunk[:10]
                    raise OSError(errno.ENOSPC, "No space left on device", path)

            await super().write_chunks(path, some(), mode=mode)

    (tmp_path / "source").write_bytes(b"x" * 100)
    with pytest.raises(OSError, match="No space") as caught:
        await copy(
            Place(LocalFiles(), os.path, str(tmp_path / "source")),
            Place(Full(), os.path, str(tmp_path / "copy")),
        )
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "copy"))
    assert os.listdir(tmp_path) == ["source"]


async def test_copy_without_local_files_is_refused(tmp_path: Path) -> None:
    host = HostFiles(FakeFiles(), facts(tmp_path), str(tmp_path))
    with pytest.raises(BackendUnavailable):
        await host.upload("a", "b")


async def test_source_file_is_closed_when_the_target_fails(tmp_path: Path) -> None:
    closed: list[str] = []

    class Source(LocalFiles):
        async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
            try:
                async with contextlib.aclosing(super().read_chunks(path)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                closed.append(path)

    class Failing(LocalFiles):
        async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
            async for _ in chunks:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    source = tmp_path / "source"
    source.write_bytes(b"x" * 3_000_000)
    with pytest.raises(OSError, match="copy"):
        await copy(Place(Source(), os.path, str(source)), Place(Failing(), os.path, str(tmp_path / "copy")))
    assert closed == [str(source)]
