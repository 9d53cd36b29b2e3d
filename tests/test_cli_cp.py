"""``anyshell cp``: sources and targets, messages, and the exit code."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyte
import pytest
from rich.cells import cell_len

from anyshell import InvalidCommand, SSHOptions
from anyshell._types import CopyProgress
from anyshell.cli.commands.cp import read_operand
from anyshell.cli.process.descriptors import DescriptorWriter

from .cli_program import anyshell, start, wait_until
from .ssh_server import HOST, Server, embedded
from .test_cli import completed

if sys.platform == "win32":
    pytest.skip("the servers of these tests are POSIX ones", allow_module_level=True)
assert sys.platform != "win32"  # on other systems mypy skips the code below

from .test_cli_ssh import Terminal, home, named, unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyshell.cli.commands.cp import Operand

__all__ = ["home"]


@pytest.fixture
def server(ssh_host: Callable[[str], Server]) -> Server:
    """A server with the files of this machine."""
    return ssh_host("asyncssh")


@pytest.fixture
def web(server: Server, home: Path) -> str:
    """An alias of the server; ``db`` is another alias."""
    named(server, home, alias="db")
    return named(server, home)


def copied(*words: object, **how: Any) -> tuple[int, str]:
    """The exit code and the stderr of a copy. stdout is empty."""
    done = anyshell("cp", *map(str, words), **how)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


SILENT = (0, "")


# --- what an operand is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "path"),
    [
        ("a", None, "a"),
        ("/a:b", None, "/a:b"),
        ("./a:b", None, "./a:b"),
        ("../a:b", None, "../a:b"),
        ("a/b:c", None, "a/b:c"),
        (":a", None, ":a"),
        ("local:a:b", None, "a:b"),
        ("./ssh://x", None, "./ssh://x"),
        ("web:", ("web", None, None), "."),
        ("web:a", ("web", None, None), "a"),
        ("web:/a:b", ("web", None, None), "/a:b"),
        ("web:~/a b", ("web", None, None), "~/a b"),
        ("web:a\nb", ("web", None, None), "a\nb"),
        ("me@web:a@b", ("web", "me", None), "a@b"),
        ("me@corp@web:a", ("web", "me@corp", None), "a"),
        ("[::1]:a", ("::1", None, None), "a"),
        ("me@[::1]:a", ("::1", "me", None), "a"),
        ("ssh://web", ("web", None, None), "."),
        ("ssh://me@web:2222/a%20b", ("web", "me", 2222), "/a b"),
        ("ssh://web/~/a", ("web", None, None), "~/a"),
        ("SSH://[::1]:22/a:b", ("::1", None, 22), "/a:b"),
        ("C:/a", ("C", None, None), "/a"),
    ],
)
def test_operand_is_parsed_like_scp(
    text: str, host: tuple[str, str | None, int | None] | None, path: str
) -> None:
    assert place_of(read_operand(text, windows=False)) == (host, path)


def place_of(operand: Operand) -> tuple[tuple[str, str | None, int | None] | None, str]:
    options = operand.host
    if options is None:
        return None, operand.path
    assert isinstance(options, SSHOptions)
    assert options.directory is None
    return (options.host, options.user, options.port), operand.path


@pytest.mark.parametrize("text", ["C:", "c:a", r"C:\a", "C:/a", r"a\b:c", r".\a:b", r"\\server\share:a"])
def test_single_letter_is_a_drive_on_windows(text: str) -> None:
    assert place_of(read_operand(text, windows=True)) == (None, text)
    assert place_of(read_operand("web:C:/a", windows=True)) == (("web", None, None), "C:/a")


@pytest.mark.parametrize("text", ["", "-oX:a", "a b:c", "@web:a", "ssh://", "ssh://me:s3cret@web/a"])
def test_malformed_operand_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(InvalidCommand) as caught:
        read_operand(text, windows=False)
    assert "s3cret" not in str(caught.value)


# --- copies ---------------------------------------------------------------------------------------------------


def test_file_is_copied_to_a_host_and_back(web: str, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "a").chmod(0o741)
    assert copied("a", f"{web}:{tmp_path}/b", cwd=tmp_path) == SILENT
    assert copied(f"{web}:{tmp_path}/b", "c", cwd=tmp_path) == SILENT
    assert (tmp_path / "c").read_bytes() == data
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o741


def test_file_is_copied_between_hosts(web: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    assert copied(f"{web}:{tmp_path}/a", f"db:{tmp_path}/b") == SILENT
    assert copied(f"{web}:{tmp_path}/a", f"{web}:{tmp_path}/c") == SILENT
    assert (tmp_path / "b").read_text() == (tmp_path / "c").read_text() == "a\n"


def test_a_file_is_copied_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a:b").write_text("a\n")
    assert copied("./a:b", "c", cwd=tmp_path) == SILENT
    assert (tmp_path / "c").read_text() == "a\n"


def test_ssh_address_can_be_an_operand(server: Server, web: str, home: Path, tmp_path: Path) -> None:
    (home / ".ssh" / "known_hosts").write_text(server.known_hosts.read_text())
    (home / ".ssh" / "id_ed25519").write_bytes(server.key.read_bytes())
    (home / ".ssh" / "id_ed25519").chmod(0o600)
    (tmp_path / "a b").write_text("a\n")
    assert copied(f"ssh://{server.user}@{HOST}:{server.port}{tmp_path}/a%20b", tmp_path / "c") == SILENT
    assert (tmp_path / "c").read_text() == "a\n"


def test_relative_remote_path_begins_at_the_login_directory(web: str, tmp_path: Path) -> None:
    directory = anyshell("run", "--host", web, "pwd").stdout.decode().strip()
    relative = os.path.relpath(tmp_path, directory)
    (tmp_path / "a").write_text("a\n")
    assert copied(f"{web}:{relative}/a", tmp_path / "b") == SILENT
    code, said = copied(f"{web}:no such file", tmp_path / "c")
    assert code == 1
    assert f"No such file or directory ({directory}/no such file)" in said


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with every kind of file that can be copied."""
    path = tmp_path / "tree"
    (path / "sub" / "empty").mkdir(parents=True)
    (path / "sub" / "file").write_text("file\n")
    (path / ".hidden").write_text("hidden\n")
    (path / "script").write_text("#!/bin/sh\n")
    (path / "script").chmod(0o755)
    (path / "link").symlink_to("sub/file")
    (path / "dangling").symlink_to("nowhere")
    return path


def listed(path: Path) -> dict[str, tuple[int, str]]:
    """Each entry below a directory: its kind, mode and content."""
    found = {}
    for each in sorted(path.rglob("*")):
        mode = each.lstat().st_mode
        inside = os.readlink(each) if each.is_symlink() else each.read_text() if each.is_file() else ""
        found[str(each.relative_to(path))] = (mode, inside)
    return found


def test_directory_is_copied_with_its_contents(web: str, tree: Path, tmp_path: Path) -> None:
    assert copied("-r", "tree", f"{web}:{tmp_path}/up", cwd=tmp_path) == SILENT
    assert copied("--recursive", f"{web}:{tmp_path}/up", "down", cwd=tmp_path) == SILENT
    assert listed(tmp_path / "down") == listed(tree)
    (tmp_path / "into").mkdir()
    assert copied("-r", f"{web}:{tmp_path}/up/", "into", cwd=tmp_path) == SILENT
    assert listed(tmp_path / "into" / "up") == listed(tree)


def test_directory_needs_the_recursive_option(web: str, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    (tmp_path / "file").write_text("a\n")
    code, said = copied("tree", "file", f"{web}:{tmp_path}/into", cwd=tmp_path)
    assert code == 1
    assert (
        said == f"anyshell: cannot copy tree to {web}:{tmp_path}/into: it is a directory; copy it with -r\n"
    )
    assert os.listdir(tmp_path / "into") == ["file"]


def test_several_sources_go_into_a_directory(web: str, tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    assert copied("a", f"{web}:{tmp_path}/b", f"db:{tmp_path}/into", cwd=tmp_path) == SILENT
    assert sorted(os.listdir(tmp_path / "into")) == ["a", "b"]
    for target in (f"{web}:{tmp_path}/a", f"{web}:{tmp_path}/missing"):
        code, said = copied("a", "b", target, cwd=tmp_path)
        assert code == 1
        assert "with several sources the target must be a directory" in said
        assert said.count("\n") == 1


def test_sources_of_one_name_do_not_replace_each_other(tmp_path: Path) -> None:
    for name in ("one", "two", "into"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    code, said = copied("one/a", "two/a", "into", cwd=tmp_path)
    assert (code, (tmp_path / "into" / "a").read_text()) == (1, "one")
    assert "cannot copy two/a to into: an earlier source has the same name" in said


def test_pipes_and_sockets_are_left_out_and_named(
    web: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = listed(tree)
    os.mkfifo(tree / "pipe\x1b[31m")
    monkeypatch.chdir(tree / "sub")  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    code, said = copied("-r", "tree", f"{web}:{tmp_path}/copy", cwd=tmp_path)
    assert code == 1
    assert sorted(said.splitlines()) == [
        f"anyshell: {tree}/{name} was not copied: it is not a file, directory or link"
        for name in ("pipe\\x1b[31m", "sub/socket")
    ]
    assert listed(tmp_path / "copy") == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing", "{web}:{tmp}/x"], "No such file or directory"),
        (["{web}:{tmp}/missing", "x"], "No such file or directory"),
        (["a", "{web}:{tmp}/no/x"], "No such file or directory"),
        (["a", "{web}:{tmp}/x/"], "No such file or directory"),
        (["-r", "folder", "{web}:{tmp}/a"], "does not replace"),
        (["/dev/null", "{web}:{tmp}/x"], "Neither a file nor a directory"),
    ],
)
def test_failed_copy_is_reported(web: str, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "folder").mkdir()
    code, text = copied(*(word.format(web=web, tmp=tmp_path) for word in words), cwd=tmp_path)
    assert code == 1
    assert text.startswith("anyshell: cannot copy ")
    assert said in text
    assert text.count("\n") == 1
    assert (tmp_path / "a").read_text() == "a"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("words", [[], ["a"], ["", "b"], ["-oX:a", "b"], ["a", "ssh://me:s3cret@web/a"]])
def test_wrong_usage_is_reported(words: list[str]) -> None:
    code, said = copied(*words)
    assert code == 2
    assert "s3cret" not in said
    assert "Traceback" not in said


def test_unreachable_host_is_reported(server: Server, home: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    code, said = copied(tmp_path / "a", f"{unknown(server, home)}:b", start_new_session=True)
    assert code == 125
    assert said.startswith("anyshell: ")
    assert "its key is not known" in said
    assert copied(tmp_path / "a", "docker://x/b") == (
        125,
        "anyshell: no backend knows 'docker' addresses; give 'local', a host's name, or 'ssh://user@host'\n",
    )


def test_notices_are_printed_unless_quiet(server: Server, home: Path, tmp_path: Path) -> None:
    web = named(server, home, "  SetEnv A=b")
    (tmp_path / "a").write_text("a")
    code, said = copied(tmp_path / "a", f"{web}:{tmp_path}/b")
    assert (code, said.count("anyshell: SetEnv")) == (0, 1)
    assert copied("-q", tmp_path / "a", f"{web}:{tmp_path}/b") == SILENT
    assert copied("--quiet", tmp_path / "missing", f"{web}:{tmp_path}/b")[0] == 1


# --- how it ends ----------------------------------------------------------------------------------------------


def begun(directory: Path) -> bool:
    """Whether a copy has written a part of its target."""
    return any(each.stat().st_size > 0 for each in directory.glob(".anyshell-*.tmp"))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file that takes long enough to copy; the file is sparse, without blocks on the disk."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(8 * 1024**3)
    (tmp_path / "into").mkdir()
    return path


@pytest.mark.parametrize("way", ["up", "down", "across", "here"])
def test_interrupted_copy_leaves_no_file(web: str, large: Path, tmp_path: Path, way: str) -> None:
    source = f"{web}:{large}" if way in ("down", "across") else str(large)
    target = f"db:{tmp_path}/into" if way in ("up", "across") else f"{tmp_path}/into"
    with start("cp", source, target, stderr=subprocess.PIPE) as program:
        wait_until(lambda: begun(tmp_path / "into"), "the copy has begun")
        program.send_signal(signal.SIGINT)
        assert program.communicate(timeout=30) == (b"", b"")
        assert program.returncode == 128 + signal.SIGINT
    assert os.listdir(tmp_path / "into") == []


def test_lost_connection_exits_with_255(home: Path, large: Path, tmp_path: Path) -> None:
    with embedded() as server:
        web = named(server, home, "  ConnectTimeout 1")
        with start("cp", f"{web}:{large}", str(tmp_path / "into"), stderr=subprocess.PIPE) as program:
            wait_until(lambda: begun(tmp_path / "into"), "the copy has begun")
            os.kill(server.pid, signal.SIGKILL)
            _, said = program.communicate(timeout=50)
            assert program.returncode == 255
            assert said.startswith(b"anyshell: cannot copy ")
            assert b"connection to the host was lost" in said
            assert said.count(b"\n") == 1
    assert os.listdir(tmp_path / "into") == []


# --- progress -------------------------------------------------------------------------------------------------


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the width of the terminal, in which this process counts as being in the foreground."""

    def of(count: int) -> None:
        monkeypatch.setattr("anyshell.cli.terminal.drawing.columns", lambda fd: count)
        monkeypatch.setattr("anyshell.cli.terminal.progress.columns", lambda fd: count)

    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("anyshell.cli.terminal.progress.is_in_foreground", lambda fd: True)
    return of


def test_copy_shows_its_progress_on_a_terminal(web: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(2_000_000))
    words = ("cp", str(tmp_path / "a"), f"{web}:{tmp_path}/b")
    with Terminal(*words, all_of_it=True) as terminal:
        terminal.asks(b"  0%  0 B of 1.9 MiB")
        terminal.asks(b"100%  1.9 MiB of 1.9 MiB")
        assert terminal.ends()[0] == 0
        assert terminal.rest().endswith(b"\r\r\n")


@pytest.mark.parametrize(
    ("options", "variables"),
    [(("-q",), {}), ((), {"TERM": "dumb"}), ((), {"TERM": ""})],
    ids=["-q", "dumb", "none"],
)
def test_progress_is_hidden_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "a").write_bytes(bytes(2_000_000))
    with Terminal("cp", *options, str(tmp_path / "a"), str(tmp_path / "b"), all_of_it=True) as terminal:
        assert terminal.ends()[0] == 0
        assert terminal.rest() == b""


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["colours", "NO_COLOR"])
def test_the_bar_has_colours_unless_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "a").write_bytes(bytes(2_000_000))
    with Terminal("cp", str(tmp_path / "a"), str(tmp_path / "b"), all_of_it=True) as terminal:
        assert terminal.ends()[0] == 0
        shown = terminal.rest()
    assert "━".encode() in shown
    assert (re.search(rb"\x1b\[[0-9;]*m", shown) is None) is bool(variables)


def reported(done: int, total: int = 100 * 2**20, files: int = 12) -> CopyProgress:
    return CopyProgress(path="", bytes_done=done, bytes_total=total, files_done=3, files_total=files)


async def drawn(
    capfd: pytest.CaptureFixture[str], name: str, *reports: CopyProgress, again: bool = False
) -> str:
    """The terminal output of a copy. Each report is drawn before the next report."""
    from anyshell.cli.terminal.progress import Progress

    writer = DescriptorWriter(2)
    progress = Progress(name, writer)
    for each in reports:
        progress(each)
        assert await progress._written()
        if again:
            progress._drawn = None  # so that nothing is erased
    await progress.close()
    await progress.close()
    writer.close()
    return capfd.readouterr().err


@pytest.mark.anyio
@pytest.mark.parametrize("width", [1, 2, 10, 20, 30, 45, 60, 80, 100, 160])
async def test_progress_line_fits_the_terminal(
    columns: Callable[[int], None], capfd: pytest.CaptureFixture[str], width: int
) -> None:
    columns(width)
    reports = [reported(done) for done in range(0, 100 * 2**20, 5 * 2**20)]
    for line in (await drawn(capfd, "na\x1bme/日本", *reports, again=True)).removesuffix("\r\n").split("\r"):
        assert cell_len(line) < max(2, width)
        assert width < 60 or re.match(
            r"na\\x1bme…? *.*  [━╸╺ ]{8,40}  +\d+%  \d+\.?\d* \w+ of 100\.0 MiB", line
        ), line
        assert width < 100 or "3 of 12 files" in line


@pytest.mark.anyio
async def test_progress_bar_is_proportional(
    columns: Callable[[int], None], capfd: pytest.CaptureFixture[str]
) -> None:
    columns(100)
    for done, total, signs in ((0, 100, 0), (50, 100, 20), (100, 100, 40), (0, 0, 40)):
        shown = await drawn(capfd, "name", reported(done, total, files=1))
        assert {line.count("━") for line in shown.split("\r") if line.strip(" \n\x1b[K")} == {signs}


@pytest.mark.anyio
async def test_shorter_progress_line_erases_a_longer_line(
    columns: Callable[[int], None], capfd: pytest.CaptureFixture[str]
) -> None:
    columns(80)
    shown = await drawn(capfd, "na\x1bme", reported(1023, 1024, files=1), reported(0, 0, files=1))
    screen = pyte.Screen(80, 3)
    pyte.Stream(screen).feed(shown.replace("\n", "\r\n"))
    assert re.fullmatch(r"na\\x1bme  ━{40}  100%  0 B of 0 B +", screen.display[0])
    assert screen.display[1:] == [" " * 80] * 2
    assert (screen.cursor.x, screen.cursor.y) == (0, 1)


def test_frozen_terminal_does_not_block_a_copy(tmp_path: Path) -> None:
    import termios

    names = [tmp_path / name for name in "abc"]
    for path in names:
        path.write_bytes(bytes(2_000_000))
    (tmp_path / "to").mkdir()
    ours, theirs = os.openpty()
    try:
        termios.tcflow(theirs, termios.TCOOFF)  # the effect of Ctrl-S
        with start(
            "cp", *map(str, names), str(tmp_path / "to"), stdin=theirs, stdout=theirs, stderr=theirs
        ) as cp:
            try:
                assert cp.wait(30) == 0
            finally:
                cp.kill()
    finally:
        os.close(ours)
        os.close(theirs)
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["a", "b", "c"]


def test_copy_into_a_pipe_draws_nothing_and_loads_no_rich(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    program = (
        "import sys, click\nfrom anyshell.cli import main\n"
        "try:\n    main(['cp', *sys.argv[1:]], standalone_mode=False)\nexcept click.exceptions.Exit:\n    pass\n"
        "print('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a"), str(tmp_path / "b")],
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == (b"False\n", b"")


# --- completion -----------------------------------------------------------------------------------------------


def test_hosts_and_paths_are_completed(web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").touch()
    assert completed("bash", "cp", "we") == ["plain,web:"]
    assert completed("bash", "cp", "me@d") == ["plain,me@db:"]
    assert completed("bash", "cp", "da") == ["file,da"]
    assert completed("bash", "cp", "data", "d") == ["file,d"]
    assert completed("bash", "cp", "nothing") == ["file,nothing"]
    assert completed("bash", "cp", f"{tmp_path}/d") == [f"file,{tmp_path}/d"]
    assert completed("bash", "cp", "web:d") == []
    assert completed("bash", "cp", "web", ":", "d") == []  # as bash splits the word
    assert completed("bash", "cp", "web", ":") == []
    assert completed("bash", "cp", "web", ":", "a", "da") == ["file,da"]
    assert completed("zsh", "cp", "we") == ["plain", "web:", "_"]
