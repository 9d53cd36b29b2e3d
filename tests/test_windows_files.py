"""Files on Windows: files held open by others, attributes, permissions, long paths, names without case."""

from __future__ import annotations

import sys

import pytest

if sys.platform != "win32":
    pytest.skip("Windows alone has it", allow_module_level=True)

import asyncio
import contextlib
import ctypes
import errno
import os
import stat
import subprocess
import threading
from ctypes import wintypes
from typing import TYPE_CHECKING

from anyshell import InvalidCommand
from anyshell._files import HostFiles, local_place
from anyshell._private import windows as _acl
from anyshell.backends.local.files import LocalFiles
from anyshell.backends.local.windows import files as windows_files

from .file_hosts import needs_links
from .systems import SYSTEM
from .test_files import facts, names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

HOLDER = """
import ctypes, sys
from ctypes import wintypes
create = ctypes.WinDLL("kernel32", use_last_error=True).CreateFileW
create.restype = wintypes.HANDLE
handle = create(sys.argv[1], 0x80000000, int(sys.argv[2]), None, 3, 0x02000000, None)
assert handle != wintypes.HANDLE(-1).value, ctypes.get_last_error()
print("held", flush=True)
sys.stdin.read()
"""
NOBODY, READERS, ALL = 0, 1, 7  # the access that a holder shares with other programs


@contextlib.contextmanager
def held(path: Path, sharing: int = NOBODY) -> Iterator[Callable[[], None]]:
    """Have another program hold a file open, until a call of the yielded function."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), str(sharing)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"held"
        yield process.stdin.close
        process.stdin.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a file, a full directory and an empty one."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "file").write_bytes(b"old")
    (tmp_path / "empty").mkdir()
    return tmp_path


CHANGES: dict[str, tuple[str, Callable[[LocalFiles, Path], Awaitable[object]]]] = {
    "read": ("file", lambda files, top: files.read(str(top / "file"))),
    "write": ("file", lambda files, top: files.write(str(top / "file"), b"new")),
    "append": ("file", lambda files, top: files.write(str(top / "file"), b"new", append=True)),
    "remove": ("file", lambda files, top: files.remove(str(top / "file"))),
    "rename": ("file", lambda files, top: files.rename(str(top / "file"), str(top / "renamed"))),
    "replace": (
        "file",
        lambda files, top: files.rename(str(top / "tree" / "deep" / "file"), str(top / "file")),
    ),
    "remove a tree": (
        "tree/deep/file",
        lambda files, top: files.remove(str(top / "tree"), recursive=True),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_change_waits_for_a_program_that_holds_the_file(
    directory: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows_files, "PATIENCE", 60.0)
    name, change = CHANGES[what]
    with held(directory / name) as let_go:
        task = asyncio.ensure_future(change(LocalFiles(), directory))
        await asyncio.wait([task], timeout=0.1)
        assert not task.done()
        let_go()
        await task
    assert all(".anyshell" not in each for each in os.listdir(directory))


@pytest.mark.parametrize("what", CHANGES)
async def test_change_reports_a_file_that_stays_held(
    directory: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows_files, "PATIENCE", 0.1)
    name, change = CHANGES[what]
    before = sorted(os.listdir(directory))
    with held(directory / name):
        with pytest.raises(PermissionError, match=r"Another program has it open.* 0\.1 s") as caught:
            await change(LocalFiles(), directory)
        assert caught.value.errno == errno.EACCES
        assert caught.value.filename == str(directory / name)
        assert sorted(os.listdir(directory)) == before
    assert (directory / name).read_bytes() == b"old"


async def test_a_cancelled_change_does_not_wait(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_files, "PATIENCE", 3600.0)
    for what in ("write", "remove", "rename", "remove a tree"):
        name, change = CHANGES[what]
        with held(directory / name):
            task = asyncio.ensure_future(change(LocalFiles(), directory))
            await asyncio.wait([task], timeout=0.1)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        assert (directory / name).read_bytes() == b"old"
    assert sorted(os.listdir(directory)) == ["empty", "file", "tree"]


async def test_failed_copy_removes_a_file_held_by_a_scanner(tmp_path: Path) -> None:
    """The unfinished file is held when it is to be removed, and released a little later."""
    path = tmp_path / "new"
    with contextlib.ExitStack() as stack:

        async def chunks() -> AsyncIterator[bytes]:
            yield b"x"
            let_go = stack.enter_context(held(path, ALL & ~4))
            threading.Timer(0.2, let_go).start()
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            await LocalFiles().write_chunks(str(path), chunks(), mode=0o644)
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["file", "naïve 🙂 name"])
async def test_open_file_is_replaced_by_handle(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wine has only the older way, with the same structure, which replaces no open file."""
    if SYSTEM == "wine":
        monkeypatch.setattr(windows_files, "_FILE_RENAME_INFO_EX", 3)  # FileRenameInfo
    (tmp_path / name).write_bytes(b"old")
    (tmp_path / "new").write_bytes(b"new")
    with contextlib.ExitStack() as stack:
        if SYSTEM == "windows":
            stack.enter_context(held(tmp_path / name, ALL))
        assert windows_files._replace_in_use(str(tmp_path / "new"), str(tmp_path / name))
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"new"


async def test_reader_of_anyshell_blocks_no_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (3 * 1024 * 1024))
    reading = LocalFiles().read_chunks(str(path))
    first = await anext(reading)
    path.rename(tmp_path / "other")
    with (tmp_path / "other").open("r+b") as file:
        file.write(b"y")
    assert len(first) + sum([len(chunk) async for chunk in reading]) == 3 * 1024 * 1024


@pytest.mark.skipif(SYSTEM == "wine", reason="Wine finds the end of a file and writes there in two steps")
async def test_concurrent_appends_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    script = """
import asyncio, sys
from anyshell.backends.local.files import LocalFiles
async def main():
    for _ in range(30):
        await LocalFiles().write(sys.argv[1], sys.argv[2].encode() * 99 + b"\\n", append=True)
asyncio.run(main())
"""
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path), letter]) for letter in "abc"]
    for writer in writers:
        assert writer.wait(120) == 0
    lines = path.read_bytes().splitlines()
    assert len(lines) == 90
    assert set(lines) == {letter * 99 for letter in (b"a", b"b", b"c")}


# --- attributes and permissions


def attributes(path: Path) -> int:
    return os.stat(path).st_file_attributes


def set_attributes(path: Path, value: int) -> None:
    function = ctypes.WinDLL("kernel32").SetFileAttributesW
    function.argtypes = (wintypes.LPCWSTR, wintypes.DWORD)
    assert function(str(path), value)


async def test_a_replaced_file_stays_hidden(tmp_path: Path) -> None:
    path = tmp_path / "desktop.ini"
    path.write_bytes(b"old")
    wanted = stat.FILE_ATTRIBUTE_HIDDEN | stat.FILE_ATTRIBUTE_SYSTEM
    set_attributes(path, wanted)
    await LocalFiles().write(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert attributes(path) & wanted == wanted
    await LocalFiles().write(str(path), b"er", append=True)
    assert path.read_bytes() == b"newer"


async def test_chmod_is_the_read_only_attribute(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    local = LocalFiles()
    for mode, told in ((0o400, 0o444), (0o600, 0o666), (0o000, 0o444), (0o777, 0o666)):
        await local.chmod(str(path), mode)
        assert (await local.stat(str(path))).mode == told
    await local.chmod(str(tmp_path), 0o500)
    (tmp_path / "another").touch()


@pytest.fixture
def open_directory(tmp_path: Path) -> Path:
    """A directory in which every user may read new files."""
    path = tmp_path / "open"
    with _acl.attributes(f"D:P(A;OICI;FA;;;{_acl.this_user()})(A;OICI;FR;;;{EVERYBODY})") as made:
        assert _acl._kernel32().CreateDirectoryW(str(path), ctypes.byref(made))
    return path


EVERYBODY = "S-1-1-0"


def readers(path: Path) -> set[str]:
    """The users with any access to a file, besides the system and administrators."""
    with _acl._security(str(path), _acl._Win32.DACL_SECURITY_INFORMATION) as found:
        first = _acl._AllowingEntry.sid.offset
        return {_acl._sid_text(ctypes.addressof(entry) + first) for entry in found.entries()} & {
            EVERYBODY,
            _acl.this_user(),
        }


@pytest.mark.parametrize("is_private", [True, False])
async def test_access_to_a_file_survives_its_replacement(open_directory: Path, is_private: bool) -> None:
    path = open_directory / "file"
    os.close(windows_files.create(str(path), threading.Event(), private=is_private))
    before = readers(path)
    assert (EVERYBODY not in before) == is_private
    await LocalFiles().write(str(path), b"new")
    assert readers(path) == before


@pytest.mark.parametrize(("mode", "is_private"), [(0o600, True), (0o644, False)])
async def test_a_copy_of_a_private_file_is_private(open_directory: Path, mode: int, is_private: bool) -> None:
    seen: list[set[str]] = []

    async def chunks() -> AsyncIterator[bytes]:
        seen.append(readers(open_directory / "copy"))
        yield b"x"

    await LocalFiles().write_chunks(str(open_directory / "copy"), chunks(), mode=mode)
    assert seen == [{_acl.this_user()}]
    assert (readers(open_directory / "copy") == {_acl.this_user()}) == is_private


# --- paths


@pytest.fixture
def long_directory(tmp_path: Path) -> Path:
    """A path of more than 260 characters, without a file yet."""
    return tmp_path.joinpath(*("a" * 60,) * 5)


async def test_a_long_path_is_a_path(tmp_path: Path, long_directory: Path) -> None:
    local, path = LocalFiles(), str(long_directory / "file")
    assert len(path) > 300
    await local.mkdir(str(long_directory), parents=True)
    await local.write(path, b"one")
    await local.write(path, b" two", append=True)
    await local.write(path, await local.read(path) + b" three")
    await local.rename(path, path + "2")
    await local.chmod(path + "2", 0o400)
    assert [entry.name for entry in await local.list(str(long_directory))] == ["file2"]
    assert b"".join([chunk async for chunk in local.read_chunks(path + "2")]) == b"one two three"
    for call in (local.read(path), local.stat(path), local.remove(path), local.rename(path, path + "3")):
        with pytest.raises(FileNotFoundError) as caught:
            await call
        assert caught.value.filename == path
    await local.remove(str(tmp_path / ("a" * 60)), recursive=True)
    assert os.listdir(tmp_path) == []


async def test_file_named_like_a_device_is_reached_verbatim(tmp_path: Path) -> None:
    """Redirections of other systems' shells leave such files, and no other program removes them."""
    host = HostFiles(LocalFiles(), facts(tmp_path), str(tmp_path))
    path = f"\\\\?\\{tmp_path}\\nul"
    await host.write(path, b"x")
    assert await host.list() == ["nul"]
    assert await host.read(path) == b"x"
    await host.remove(path)
    assert await host.list() == []


def test_local_path_is_a_windows_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    for path, meant in {
        ".": here,
        ".\\": here,
        "a/b": here + "\\a\\b",
        "/a": here[:2] + "\\a",
        "\\\\?\\C:\\a": "C:\\a",
        "\\\\?\\C:\\nul": "\\\\?\\C:\\nul",
    }.items():
        assert local_place(LocalFiles(), path).path == meant
    for path in ("", "Q:x", "nul", "b:stream", "b.", "\\\\.\\C:", "a\0b", "half \ud800"):
        with pytest.raises(InvalidCommand):
            local_place(LocalFiles(), path)


async def test_names_ignore_case(tmp_path: Path) -> None:
    host = HostFiles(LocalFiles(), facts(tmp_path), str(tmp_path))
    await host.write("ReadMe.TXT", b"old")
    await host.mkdir("Sub/Deep", parents=True)
    await host.write("sub\\DEEP/File.py", b"")
    await host.write("README.txt", b"new")
    assert await host.list() == ["ReadMe.TXT", "Sub"]
    assert await host.read("readme.txt") == b"new"
    for pattern in ("*.txt", "READ*", "[p-r]eadme.txt"):
        found = await host.glob(pattern)
        assert [os.path.normcase(path) for path in found] == [os.path.normcase(tmp_path / "readme.txt")]
    for pattern in ("**/*.PY", "sub/*/*.py", "s*\\deep\\*.py", "**\\file.*"):
        found = await host.glob(pattern)
        assert [os.path.normcase(path) for path in found] == [os.path.normcase(tmp_path / "sub/deep/file.py")]


async def test_a_device_is_no_file_and_is_not_opened(tmp_path: Path) -> None:
    local = LocalFiles()
    for call in (local.read("NUL"), local.write("NUL", b"x"), local.write("NUL", b"x", append=True)):
        with pytest.raises(OSError, match="Not a regular file") as caught:
            await call
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, "NUL")


async def test_failure_to_make_a_link_is_reported(tmp_path: Path) -> None:
    path, failure = tmp_path / "link", None
    try:
        await LocalFiles().symlink("target", str(path))
    except OSError as error:
        failure = error
    if failure is None:
        assert os.readlink(path) == "target"
        return
    assert failure.filename == str(path)
    assert "makes no links" in str(failure) or "make links" in str(failure)


def junction(target: Path, path: Path) -> None:
    """Make a junction, or skip the test."""
    import _winapi

    try:
        _winapi.CreateJunction(str(target), str(path))
    except OSError as error:
        pytest.skip(f"junctions cannot be made here: {error.strerror}")


async def test_a_junction_is_a_link_and_never_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep me")
    (tmp_path / "tree").mkdir()
    junction(precious, tmp_path / "tree" / "junction")
    local = LocalFiles()
    assert (await local.stat(str(tmp_path / "tree" / "junction"), follow=False)).kind == "link"
    assert [entry.kind for entry in await local.list(str(tmp_path / "tree"))] == ["link"]
    assert await local.readlink(str(tmp_path / "tree" / "junction")) == str(precious)
    assert await HostFiles(local, facts(tmp_path), str(tmp_path)).glob("**/file") == [str(precious / "file")]
    await local.remove(str(tmp_path / "tree"), recursive=True)
    assert await names(local, str(precious)) == ["file"]


@needs_links
async def test_a_link_to_a_directory_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "file").write_bytes(b"x")
    local = LocalFiles()
    await local.symlink("target", str(tmp_path / "link"))
    assert os.path.isdir(tmp_path / "link")
    await local.rename(str(tmp_path / "file"), str(tmp_path / "link"))
    assert (tmp_path / "link").read_bytes() == b"x"
    assert os.listdir(tmp_path / "target") == []


async def test_a_directory_is_not_replaced_by_renaming(directory: Path) -> None:
    local = LocalFiles()
    with pytest.raises(IsADirectoryError) as caught:
        await local.rename(str(directory / "file"), str(directory / "empty"))
    assert caught.value.filename == str(directory / "empty")
    with pytest.raises(FileExistsError):
        await local.rename(str(directory / "tree"), str(directory / "empty"))
    assert sorted(os.listdir(directory)) == ["empty", "file", "tree"]
