"""Guarantees for files of an SSH host beyond the contract in ``test_files.py``: errors, losses, old servers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from anyshell import AnyshellError
from anyshell._exceptions import ConnectionFailed

from .conftest import missing
from .file_hosts import IMPLEMENTATIONS, connected, reached, run_here, server
from .test_files import mode

assert sys.platform != "win32"  # else mypy checks the code below on every platform

import asyncssh

from anyshell.backends.ssh.files.either import SSHFiles
from anyshell.backends.ssh.files.sftp.files import SFTPFiles
from anyshell.backends.ssh.files.shell import ShellFiles

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterator,
        Sequence,
    )
    from pathlib import Path

    from anyshell.abc import Files

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


@pytest.fixture(params=["sftp", "sftp-asyncssh", "no-sftp", "dash", "busybox"])
async def files(request: pytest.FixtureRequest) -> AsyncIterator[Files]:
    async with reached(request.param) as implementation:
        yield implementation


@pytest.fixture(params=["sftp", "sftp-asyncssh"])
async def connection(request: pytest.FixtureRequest) -> AsyncIterator[asyncssh.SSHClientConnection]:
    async with await connected(server(request.param)) as made:
        yield made


async def never_run(argv: Sequence[str], stdin: bytes | None, most: int) -> tuple[int | None, bytes, bytes]:
    raise AssertionError("the shell was used")


# --- errors


async def test_errors_match_those_of_a_local_file(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full" / "x").mkdir(parents=True)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    top, long = str(tmp_path), str(tmp_path / ("n" * 300))
    cases: list[tuple[int, str, Callable[[str], Awaitable[object]]]] = [
        (errno.ENOTDIR, f"{top}/file/x", files.stat),
        (errno.ENOTDIR, f"{top}/file/x", files.read),
        (errno.ENOTDIR, f"{top}/file/x", files.mkdir),
        (errno.ENOTDIR, f"{top}/file/x", files.list),
        (errno.ENOTDIR, f"{top}/file/x", lambda path: files.write(path, b"")),
        (errno.ENOTDIR, f"{top}/file/x", lambda path: files.write(path, b"", append=True)),
        (errno.ENOTDIR, f"{top}/file/x", files.remove),
        (errno.ENOENT, f"{top}/dangling", files.stat),
        (errno.ENOENT, f"{top}/dangling", files.list),
        (errno.ELOOP, f"{top}/loop", files.stat),
        (errno.ELOOP, f"{top}/loop/x", files.stat),
        (errno.ELOOP, f"{top}/loop", lambda path: files.write(path, b"", append=True)),
        (errno.ENAMETOOLONG, long, files.stat),
        (errno.ENAMETOOLONG, long, files.mkdir),
        (errno.ENAMETOOLONG, long, lambda path: files.symlink("x", path)),
        (errno.EEXIST, f"{top}/full", files.mkdir),
        (errno.EEXIST, f"{top}/dangling", lambda path: files.mkdir(path, exist_ok=True)),
        (errno.EEXIST, f"{top}/file", lambda path: files.symlink("x", path)),
        (errno.ENOTEMPTY, f"{top}/full", files.remove),
        (errno.EISDIR, f"{top}/file", lambda path: files.rename(path, f"{top}/full")),
        (errno.ENOENT, f"{top}/file", lambda path: files.rename(path, f"{top}/no/x")),
        (errno.ENOTDIR, f"{top}/full", lambda path: files.rename(path, f"{top}/file")),
        (errno.EINVAL, f"{top}/file", files.readlink),
        (errno.ENOENT, f"{top}/missing", files.readlink),
        (errno.ENOENT, f"{top}/missing", lambda path: files.chmod(path, 0o600)),
    ]
    for number, path, call in cases:
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is looked at
            await call(path)
        told = (caught.value.errno, caught.value.filename)
        assert told == (number, path), f"{errno.errorcode[number]} expected, {caught.value!r}"
        assert type(caught.value) is type(OSError(number, ""))
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file", "full", "loop"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
async def test_read_only_and_full_file_systems_are_reported(files: Files) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is looked at
        await files.mkdir("/proc/anyshell")
    assert caught.value.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS)
    with pytest.raises(OSError, match="Not a regular file"):
        await files.write("/dev/full", b"x", append=True)


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of 2 MiB, for the test and for the server."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        missing("root", "run the tests as root: a small file system is mounted")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "anyshell-test", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="a small file system is Linux's tmpfs here")
async def test_full_disk_is_an_error_and_leaves_nothing(files: Files, tmp_path: Path) -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        for _ in range(16):
            yield b"x" * (MIB // 4)

    with small_disk(tmp_path) as place:
        (place / "old").write_bytes(b"old")
        calls: list[tuple[str, Callable[[str], Awaitable[object]]]] = [
            ("new", lambda path: files.write(path, b"x" * 4 * MIB)),
            ("old", lambda path: files.write(path, b"x" * 4 * MIB)),
            ("chunks", lambda path: files.write_chunks(path, pieces(), mode=0o600)),
            ("appended", lambda path: files.write(path, b"x" * 4 * MIB, append=True)),
        ]
        for name, call in calls:
            with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is looked at
                await call(str(place / name))
            told = (caught.value.errno, caught.value.filename)
            assert told == (errno.ENOSPC, str(place / name)), f"{name}: {caught.value!r}"
        assert sorted(os.listdir(place)) == ["appended", "old"]
        assert (place / "old").read_bytes() == b"old"


@pytest.mark.skipif(sys.platform != "linux", reason="a small file system is Linux's tmpfs here")
@pytest.mark.parametrize("kind", IMPLEMENTATIONS)
async def test_read_only_file_system_is_the_reason_of_each_change(kind: str, tmp_path: Path) -> None:
    with small_disk(tmp_path) as place:
        (place / "old").write_bytes(b"old")
        (place / "empty").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        async with reached(kind) as files:
            calls: list[tuple[str, Callable[[str], Awaitable[object]]]] = [
                ("new", lambda path: files.write(path, b"x")),
                ("old", lambda path: files.write(path, b"x")),
                ("old", lambda path: files.write(path, b"x", append=True)),
                ("old", files.remove),
                ("old", lambda path: files.chmod(path, 0o600)),
                ("directory", files.mkdir),
                ("empty", files.remove),
            ]
            for name, call in calls:
                with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is looked at
                    await call(str(place / name))
                assert (caught.value.errno, caught.value.filename) == (errno.EROFS, str(place / name))
        assert sorted(os.listdir(place)) == ["empty", "old"]


@pytest.mark.parametrize("shell", ["dash", "busybox"])
async def test_without_sftp_unreadable_file_is_a_permission_error(tmp_path: Path, shell: str) -> None:
    if os.geteuid() != 0:
        missing("root", "run the tests as root: another user must not read a file")
    (tmp_path / "secret").write_bytes(b"x" * 10)
    (tmp_path / "secret").chmod(0o600)
    for each in (tmp_path, *tmp_path.parents):
        each.chmod(each.stat().st_mode | 0o011)
    path = str(tmp_path / "secret")

    async def run(argv: Sequence[str], stdin: bytes | None, most: int) -> tuple[int | None, bytes, bytes]:
        return await run_here(shell, argv, stdin, most, user=65534)

    files = ShellFiles(run)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: files.read(path),
        lambda: anext(files.read_chunks(path)),
        lambda: files.write(path, b"y"),
        lambda: files.write(path, b"y", append=True),
    ]
    for call in calls:
        with pytest.raises(PermissionError) as caught:
            await call()
        assert caught.value.filename == path


async def test_without_sftp_lost_link_is_a_connection_error() -> None:
    async def cut(argv: Sequence[str], stdin: bytes | None, most: int) -> tuple[int | None, bytes, bytes]:
        return None, b"", b""

    path, files = "/tmp/file", ShellFiles(cut)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: files.stat(path),
        lambda: files.read(path),
        lambda: files.list(path),
        lambda: files.write(path, b"y"),
        lambda: files.write(path, b"y", append=True),
        lambda: files.mkdir(path),
        lambda: files.remove(path),
        lambda: files.rename(path, "/x"),
        lambda: files.readlink(path),
        lambda: files.symlink("x", path),
        lambda: files.chmod(path, 0o600),
    ]
    for call in calls:
        with pytest.raises(ConnectionResetError) as lost:
            await call()
        assert (lost.value.errno, lost.value.filename) == (errno.ECONNRESET, path)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc here")
async def test_file_with_a_false_size_is_read_whole(files: Files, tmp_path: Path) -> None:
    assert (await files.stat("/proc/cpuinfo")).size == 0
    with open("/proc/kallsyms", "rb") as file:
        whole = file.read()
    assert await files.read("/proc/kallsyms") == whole
    assert (await files.read("/proc/kallsyms", offset=7, length=20)) == whole[7:27]
    assert b"".join([chunk async for chunk in files.read_chunks("/proc/kallsyms")]) == whole


async def test_undecodable_names_survive(files: Files, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\xff")
    await files.write(path, b"x")
    assert os.listdir(os.fsencode(tmp_path)) == [b"caf\xe9\xff"]
    assert [(entry.name, entry.kind) for entry in await files.list(str(tmp_path))] == [
        ("caf\udce9\udcff", "file")
    ]
    assert await files.read(path) == b"x"
    await files.symlink(path, path + "2")
    assert await files.readlink(path + "2") == path
    await files.remove(path)


async def test_targets_of_links_are_exact(files: Files, tmp_path: Path) -> None:
    for target in ("plain", "two\nlines\n", " -x ", "\n", "../up", "/"):
        await files.symlink(target, str(tmp_path / "link"))
        assert os.readlink(tmp_path / "link") == target
        assert await files.readlink(str(tmp_path / "link")) == target
        await files.rename(str(tmp_path / "link"), str(tmp_path / "moved"))
        assert os.listdir(tmp_path) == ["moved"]
        os.unlink(tmp_path / "moved")


async def test_a_link_replaces_a_link_to_a_directory(files: Files, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "old").symlink_to("directory")
    (tmp_path / "new").symlink_to("nowhere")
    await files.rename(str(tmp_path / "new"), str(tmp_path / "old"))
    assert os.readlink(tmp_path / "old") == "nowhere"
    assert os.listdir(tmp_path / "directory") == []


async def test_listing_has_the_kinds_of_files(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("directory")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "*").touch()
    (tmp_path / ".*").mkdir()
    assert {entry.name: entry.kind for entry in await files.list(str(tmp_path))} == {
        "file": "file",
        "directory": "directory",
        "link": "link",
        "pipe": "other",
        "*": "file",
        ".*": "directory",
    }


async def test_pipes_are_neither_read_nor_written(files: Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / "pipe")
    for call in (files.read(path), files.write(path, b"x"), files.write(path, b"x", append=True)):
        with pytest.raises(OSError, match="Not a regular file"):
            await call


async def test_a_replaced_file_keeps_its_owner(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    try:
        os.chown(path, 12345, 23456)
    except PermissionError:
        pytest.skip("only root may give a file away")
    path.chmod(0o640)
    await files.write(str(path), b"new")
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 23456, 0o640)


async def test_new_file_has_the_mode_of_the_umask(files: Files, tmp_path: Path) -> None:
    await files.write(str(tmp_path / "written"), b"x")
    await files.write(str(tmp_path / "appended"), b"x", append=True)
    assert mode(tmp_path / "written") == mode(tmp_path / "appended") == 0o644


async def test_chunks_are_written_whole_or_not_at_all(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "file")

    async def pieces(fail: bool) -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * MIB
        if fail:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        await files.write_chunks(path, pieces(True), mode=0o640)
    assert os.listdir(tmp_path) == []
    await files.write_chunks(path, pieces(False), mode=0o640)
    assert (os.path.getsize(path), mode(tmp_path / "file")) == (3 * MIB, 0o640)
    with pytest.raises(FileExistsError) as caught:
        await files.write_chunks(path, pieces(False), mode=0o640)
    assert caught.value.filename == path
    assert os.path.getsize(path) == 3 * MIB


# --- the service


async def test_simultaneous_first_uses_open_one_service(
    connection: asyncssh.SSHClientConnection, tmp_path: Path
) -> None:
    opened = 0

    async def open_() -> asyncssh.SFTPClient:
        nonlocal opened
        opened += 1
        return await connection.start_sftp_client()

    files = SSHFiles(open_, never_run)
    await asyncio.gather(*(files.stat(str(tmp_path)) for _ in range(20)))
    assert opened == 1
    await files.aclose()
    await files.aclose()


async def test_a_dead_service_is_opened_anew(
    connection: asyncssh.SSHClientConnection, tmp_path: Path
) -> None:
    clients: list[asyncssh.SFTPClient] = []

    async def open_() -> asyncssh.SFTPClient:
        clients.append(await connection.start_sftp_client())
        return clients[-1]

    files = SFTPFiles(open_)
    path = str(tmp_path / "file")
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: files.write(path, b"1"),
        lambda: files.read(path),
        lambda: files.write(path, b"2", append=True),
        lambda: files.list(str(tmp_path)),
        lambda: files.rename(path, path + "2"),
    ]
    for turn, call in enumerate(calls, 1):
        await call()
        assert len(clients) == turn
        clients[-1].exit()
        await clients[-1].wait_closed()
    assert (tmp_path / "file2").read_bytes() == b"12"
    await files.aclose()


async def test_a_closed_connection_is_no_error_of_asyncssh(
    connection: asyncssh.SSHClientConnection, tmp_path: Path
) -> None:
    files = SFTPFiles(connection.start_sftp_client)
    await files.stat(str(tmp_path))
    connection.close()
    await connection.wait_closed()
    for call in (files.stat(str(tmp_path)), files.write(str(tmp_path / "x"), b"x")):
        with pytest.raises((OSError, AnyshellError)) as caught:
            await call
        assert isinstance(caught.value, ConnectionFailed)


async def test_a_cut_under_a_copy_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    from anyshell._transfer import Place, copy
    from anyshell.backends.local.files import LocalFiles

    made: list[asyncssh.SSHClientConnection] = []

    async def open_() -> asyncssh.SFTPClient:
        made.append(await connected(server("sftp-asyncssh")))
        return await made[-1].start_sftp_client()

    class Cutting(LocalFiles):
        """Files that cut the connection while one is copied."""

        async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
            async with contextlib.aclosing(super().read_chunks(path)) as chunks:
                async for chunk in chunks:
                    yield chunk
                    made[0].abort()

        async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
            async def some() -> AsyncIterator[bytes]:
                async for chunk in chunks:
                    yield chunk
                    made[0].abort()

            await super().write_chunks(path, some(), mode=mode)

    (tmp_path / "source").write_bytes(os.urandom(20 * MIB))
    for up in (True, False):
        files = SFTPFiles(open_)
        here, there = Cutting(), files
        source, target = (here, there) if up else (there, here)
        with pytest.raises(ConnectionResetError) as caught:
            await copy(
                Place(source, os.path, str(tmp_path / "source")),
                Place(target, os.path, str(tmp_path / "copy")),
            )
        assert caught.value.errno == errno.ECONNRESET
        assert os.listdir(tmp_path) == ["source"]
        await files.aclose()
        for each in made:
            each.abort()
        made.clear()


# # --- servers with limitations


class Silent(asyncssh.SFTPServer):
    """A server that never answers for a path that ends in ``silent``."""

    async def stat(self, path: bytes) -> os.stat_result:
        if path.endswith(b"silent"):
            await asyncio.Event().wait()
        return os.stat(path)


class Old(asyncssh.SFTPServer):
    """A server that refuses to rename over a file, as in version 3 of the protocol."""

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        if os.path.lexists(newpath):
            raise asyncssh.SFTPFailure("")
        os.rename(oldpath, newpath)


class Broken(Old):
    """A server that also refuses to rename the temporary file to its target."""

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        if oldpath.endswith(b".tmp"):
            raise asyncssh.SFTPPermissionDenied("")
        super().rename(oldpath, newpath)


async def serving(
    kind: type[asyncssh.SFTPServer],
) -> tuple[asyncssh.SSHAcceptor, asyncssh.SSHClientConnection]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    acceptor = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[key],
        authorized_client_keys=asyncssh.import_authorized_keys(key.export_public_key().decode()),
        sftp_factory=kind,
    )
    made = await asyncssh.connect(
        "127.0.0.1", acceptor.get_port(), username="me", client_keys=[key], known_hosts=None, config=None
    )
    return acceptor, made


async def without_extensions(made: asyncssh.SSHClientConnection) -> asyncssh.SFTPClient:
    client = await made.start_sftp_client()
    client._handler._supports_posix_rename = False  # the client's view of a server without the extension
    return client


async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    acceptor, made = await serving(Silent)
    files = SFTPFiles(made.start_sftp_client, stall=0.2)
    (tmp_path / "silent").touch()
    for call in (files.stat(str(tmp_path / "silent")), files.write(str(tmp_path / "silent"), b"x")):
        with pytest.raises(TimeoutError, match="no answer") as caught:
            await call
        assert (caught.value.errno, caught.value.filename) == (errno.ETIMEDOUT, str(tmp_path / "silent"))
    assert (await files.stat(str(tmp_path))).kind == "directory"
    await files.aclose()
    made.abort()
    acceptor.close()


async def test_server_without_posix_rename_replaces_files(tmp_path: Path) -> None:
    acceptor, made = await serving(Old)
    files = SFTPFiles(lambda: without_extensions(made))
    await files.write(str(tmp_path / "file"), b"1")
    await files.write(str(tmp_path / "file"), b"2")
    assert (tmp_path / "file").read_bytes() == b"2"
    await files.write(str(tmp_path / "other"), b"3")
    await files.rename(str(tmp_path / "other"), str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b"3"
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        await files.rename(str(tmp_path / "file"), str(tmp_path / "directory"))
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]
    await files.aclose()
    made.abort()
    acceptor.close()


async def test_file_moved_aside_is_put_back(tmp_path: Path) -> None:
    acceptor, made = await serving(Broken)
    files = SFTPFiles(lambda: without_extensions(made))
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(PermissionError):
        await files.write(str(tmp_path / "file"), b"new")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
    await files.aclose()
    made.abort()
    acceptor.close()


async def test_full_disk_is_an_error_and_keeps_the_old_content(tmp_path: Path) -> None:
    class Full(asyncssh.SFTPServer):
        def write(self, file_obj: object, offset: int, data: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    acceptor, made = await serving(Full)
    files = SFTPFiles(made.start_sftp_client)
    (tmp_path / "file").write_bytes(b"old")
    for append in (False, True):
        with pytest.raises(OSError, match="No space") as caught:
            await files.write(str(tmp_path / "file"), b"x" * MIB, append=append)
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "file"))
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
    await files.aclose()
    made.abort()
    acceptor.close()


async def test_without_sftp_the_shell_is_used_from_then_on(tmp_path: Path) -> None:
    async with await connected(server("no-sftp")) as made:
        asked = 0

        async def open_() -> asyncssh.SFTPClient:
            nonlocal asked
            asked += 1
            return await made.start_sftp_client()

        files = SSHFiles(open_, functools.partial(run_here, "dash"))
        for _ in range(3):
            assert (await files.stat(str(tmp_path))).kind == "directory"
        assert asked == 1
