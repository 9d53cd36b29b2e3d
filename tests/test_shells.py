from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import pytest

from anyshell._exceptions import InvalidCommand
from anyshell._types import ShellInfo, ShellKind
from anyshell.shells import SHELLS, candidates, not_found, posix

from .conftest import missing

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.skipif(os.name != "posix", reason="runs POSIX shells")

How = Literal["argument", "descriptor", "file"]


def _require(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        missing(program, f"apt-get install {program}, or brew install {program}")
    assert path is not None
    return path


@pytest.fixture(params=["bash", "zsh", "dash", "busybox ash", "bash as sh"])
def info(request: pytest.FixtureRequest, tmp_path: Path) -> ShellInfo:
    """Every shell of the known kinds, by a name that selects the kind."""
    match request.param:
        case "busybox ash":
            path, kind = tmp_path / "ash", "sh"
            path.symlink_to(_require("busybox"))
        case "bash as sh":
            path, kind = tmp_path / "sh", "sh"
            path.symlink_to(_require("bash"))
        case "dash":
            path, kind = Path(_require("dash")), "sh"
        case program:
            path, kind = Path(_require(program)), program
    return ShellInfo(_kind(kind), str(path))


def _kind(name: str) -> ShellKind:
    (kind,) = (kind for kind in SHELLS if kind == name)
    return kind


def _dialect(info: ShellInfo) -> posix.Shell:
    shell = SHELLS[info.kind]
    assert isinstance(shell, posix.Shell)
    return shell


@pytest.fixture
def always_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix, "LONGEST_ARGUMENT", -1)


def _run(
    info: ShellInfo,
    text: str,
    *,
    how: How = "descriptor",
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Start the command that the dialect names, with the script in each place where a backend may put it."""
    launch = SHELLS[info.kind].launch(info, text)
    assert (launch.script is None) == (how == "argument")
    with tempfile.NamedTemporaryFile(prefix="a script ") as file:
        file.write((launch.script or "").encode())
        file.flush()
        # Two digits: some shells accept no longer number as a descriptor.
        descriptor = os.dup2(file.fileno(), 87)
        where = {"argument": None, "descriptor": f"/dev/fd/{descriptor}", "file": file.name}[how]
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            return subprocess.run(
                launch.argv,
                env={**os.environ, **(env or {}), **({} if where is None else {"ANYSHELL_SCRIPT": where})},
                pass_fds=(descriptor,) if how == "descriptor" else (),
                input=stdin,
                capture_output=True,
                timeout=20,
                check=False,
            )
        finally:
            os.close(descriptor)


def _comparable(result: subprocess.CompletedProcess[bytes]) -> tuple[int, bytes, bytes]:
    """Remove the traces of eval from stderr; the module's docstring names them."""
    stderr = re.sub(rb"\(eval\):", b"zsh:", result.stderr)
    return result.returncode, result.stdout, re.sub(rb"\b(eval|(?<=: )-c): ?|-c: ", b"", stderr)


TEXTS = {
    "nothing": "",
    "only line feeds": "\n\n\n",
    "a comment": "# nothing",
    "an exit status": "(exit 7)\n\n\n",
    "an exit": "echo a\nexit 5\necho b",
    "an exit status that was inherited": "echo $?",
    "a name and no arguments": 'echo "$0" $# "$*"',
    "a line number": "\n\necho $LINENO\n\n",
    "a program that is missing": "\n\nno-such-program-here\n",
    "set -e": "set -e\nfalse\necho no",
    "set -u": "set -u\necho $no_such_variable\necho no",
    "a syntax error": "echo a\necho )\n",
    "something unfinished": "if true\n\n\n",
    "a quote that is open": "echo 'a\n\n",
    "a return": "return 3; echo still here",
    "a here-document": "cat <<'END'\n$a `b` \\c \"d\" 'e'\nEND\n",
    "a here-document without its end": "cat <<END\na\n\n\n",
    "a line feed that is escaped": "echo a\\\n",
    "every quote": "echo \"a'b\" 'c\"d' `echo e` $(echo f) \\\\",
    "a dot at the end": "echo a.",
    "a trap": "trap 'echo bye $?' EXIT; (exit 4)",
    "a signal": "kill -TERM $$",
    "an error in an expansion": "echo a\necho ${nothing:?missing}\necho b",
    "a function": "f() { echo in f; }\nf",
    "characters beyond ASCII": "echo äöü😀",
    "variables of ours": "env | grep ^ANYSHELL || echo none; set | grep ^ANYSHELL_ || echo none",
}


@pytest.mark.usefixtures("always_a_script")
def test_a_script_behaves_as_the_same_text_in_an_argument(info: ShellInfo) -> None:
    shell = _dialect(info)
    ways: tuple[How, ...] = ("descriptor", "file")
    wrong = []
    for name, text in TEXTS.items():
        words = (info.path, *shell.options, "-c", "--", text, shell.kind)
        meant = _comparable(subprocess.run(words, capture_output=True, input=b"", check=False))
        found = {how: _comparable(_run(info, text, how=how)) for how in ways}
        wrong += [(name, how, each, meant) for how, each in found.items() if each != meant]
    assert wrong == []


def test_four_megabytes_of_lines_run_and_keep_their_line_numbers(info: ShellInfo) -> None:
    text = ("# " + "x" * 100 + "\n") * 40_000 + 'echo "$0" "$#" end\nno-such-program-here\nexit 3'
    assert len(text) > 4_000_000
    result = _run(info, text)
    assert (result.returncode, result.stdout) == (3, f"{info.kind} 0 end\n".encode())
    # busybox counts lines from 0, for a script as for an argument.
    assert re.search(rb"\b4000[12]\b.*no-such-program-here|4000[12]: .*no-such-program-here", result.stderr)


def test_four_megabytes_in_one_word_and_in_a_here_document_arrive_whole(info: ShellInfo) -> None:
    word = "é" * 1_000_000
    text = f"printf %s '{word}' | wc -c\nwc -c <<'END'\n{word}\nEND\n"
    result = _run(info, text)
    assert result.stdout.split() == [b"2000000", b"2000001"], result.stderr
    assert result.returncode == 0


def test_shell_variable_has_the_pid_of_the_started_process(info: ShellInfo) -> None:
    for text in ("echo $$", "echo $$" + "\n" * 200_000):
        launch = SHELLS[info.kind].launch(info, text)
        with tempfile.NamedTemporaryFile() as file:
            file.write((launch.script or "").encode())
            file.flush()
            env = {**os.environ, "ANYSHELL_SCRIPT": file.name}
            with subprocess.Popen(launch.argv, stdout=subprocess.PIPE, env=env) as process:
                output, _ = process.communicate(timeout=20)
        assert int(output) == process.pid


@pytest.mark.usefixtures("always_a_script")
def test_a_script_leaves_stdin_to_the_command(info: ShellInfo) -> None:
    assert _run(info, "read -r a; echo got $a; cat", stdin=b"one\ntwo\n").stdout == b"got one\ntwo\n"


@pytest.mark.usefixtures("always_a_script")
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks into /proc/self/fd, which Linux has")
def test_bash_and_zsh_close_the_script_before_the_command_begins(info: ShellInfo) -> None:
    result = _run(info, "readlink /proc/self/fd/87 /proc/$$/fd/87; true")
    if info.kind == "sh":
        assert b"a script" in result.stdout  # POSIX gives no way to close a descriptor above 9
    else:
        assert result.stdout == b""


@pytest.mark.usefixtures("always_a_script")
@pytest.mark.parametrize("where", ["/no/such/file", "/", "/dev/null", ""])
def test_unreadable_script_fails_with_an_error(info: ShellInfo, where: str) -> None:
    launch = SHELLS[info.kind].launch(info, "echo never")
    env = {**os.environ, "ANYSHELL_SCRIPT": where}
    result = subprocess.run(launch.argv, env=env, capture_output=True, check=False, timeout=20)
    assert (result.returncode, result.stdout) == (126, b"")
    assert b"anyshell: the command could not be read from" in result.stderr


@pytest.mark.usefixtures("always_a_script")
def test_a_variable_of_the_caller_does_not_become_the_command(info: ShellInfo) -> None:
    assert _run(info, "echo right", env={"ANYSHELL_TEXT": "echo wrong."}).stdout == b"right\n"


@pytest.mark.parametrize("text", ["-s", "-x echo", "--help", "+e"])
def test_text_that_begins_with_a_dash_is_a_missing_command(info: ShellInfo, text: str) -> None:
    result = _run(info, text, how="argument", stdin=b"echo never\n")
    assert (result.returncode, result.stdout) == (127, b"")
    assert _run(info, "-x || echo $0 $#", how="argument").stdout == f"{info.kind} 0\n".encode()


def test_only_text_too_long_for_an_argument_becomes_a_script() -> None:
    bash, info = SHELLS["bash"], ShellInfo("bash", "/bin/bash")
    for longest in ("x" * posix.LONGEST_ARGUMENT, "é" * (posix.LONGEST_ARGUMENT // 2), ""):
        launch = bash.launch(info, longest)
        assert launch.argv == ("/bin/bash", "--norc", "--noprofile", "-c", "--", longest, "bash")
        assert launch.script is None
    for longer in (
        "x" * (posix.LONGEST_ARGUMENT + 1),
        "é" * (posix.LONGEST_ARGUMENT // 2 + 1),
        "\udc80" * 99_999,
    ):
        launch = bash.launch(info, longer)
        assert all(len(argument) < 1_000 for argument in launch.argv)
        assert launch.script is not None
        assert launch.script.startswith(longer)


WORDS = [
    *(
        "",
        " ",
        "a",
        "a b",
        "a\nb",
        "a'b",
        "''",
        '"',
        "\\",
        "$HOME",
        "`id`",
        "$(id)",
        "*",
        "?",
        "[a]",
        "~",
        "~root",
    ),
    *(
        "!",
        "#",
        "a#b",
        "=ls",
        "A=b",
        "&",
        ";",
        "|",
        "<",
        ">",
        "(",
        ")",
        "{a,b}",
        "-n",
        "--",
        "é",
        "\t",
        "%1",
        "^a",
    ),
    *sorted(posix._RESERVED),
    "\x01\x7f\x1b[31m",
    "a" * 10_000,
]


def test_a_quoted_word_is_taken_literally(info: ShellInfo) -> None:
    """One shell prints every word; a word has a shell of its own only after a mismatch."""
    shell = SHELLS[info.kind]
    texts = {word: shell.join(["printf", "<%s>", word, word]) for word in WORDS}
    meant = {word: f"<{word}><{word}>".encode() for word in WORDS}
    if _run(info, "\n".join(texts.values()), how="argument").stdout == b"".join(meant.values()):
        return
    assert [word for word in WORDS if _run(info, texts[word], how="argument").stdout != meant[word]] == []
    pytest.fail("each is right alone, and all together are not")


@pytest.mark.parametrize(
    "name", ["if", "time", "coproc", "A=b", "=true", "a b", "{", "!", "function", "repeat"]
)
def test_a_program_of_any_name_can_begin_a_joined_command(info: ShellInfo, name: str, tmp_path: Path) -> None:
    program = tmp_path / "programs" / name
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho ran "$1"\n')
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    result = _run(info, SHELLS[info.kind].join([name, "a b"]), how="argument", env=env)
    assert result.stdout == b"ran a b\n", result.stderr


def test_a_shell_reads_no_file_of_the_user(info: ShellInfo, tmp_path: Path) -> None:
    for name in (".bashrc", ".bash_profile", ".profile", ".zshenv", ".zshrc", ".zprofile", "startup"):
        (tmp_path / name).write_text("echo surprise\n")
    env = {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "SSH_CLIENT": "::1 1 2", "SHLVL": "0"}
    assert _run(info, "echo ok", how="argument", env=env).stdout == b"ok\n"


def test_variables_of_startup_files_and_directories_are_unset(info: ShellInfo, tmp_path: Path) -> None:
    startup = tmp_path / "startup"
    startup.write_text("echo read\n")
    assert SHELLS[info.kind].unset == {"BASH_ENV", "ENV", "CDPATH", "OLDPWD"}
    env = {"BASH_ENV": str(startup), "ENV": str(startup)}
    nested = "bash -c 'echo nested'"
    _require("bash")
    with_them = _run(info, nested, how="argument", env=env).stdout.splitlines()
    assert with_them[-2:] == [b"read", b"nested"]
    assert _run(info, nested, how="argument").stdout == b"nested\n"


def test_start_as_if_by_a_cd_is_declared_as_shells_behave(info: ShellInfo, tmp_path: Path) -> None:
    (version,) = re.findall(r"\d+\.\d+|\Z", _answer(info.path, candidates(f"/x/{info.kind}")[0].arguments))[
        :1
    ]
    info = ShellInfo(info.kind, info.path, version)
    env = {"PATH": os.environ["PATH"], "PWD": str(tmp_path), "OLDPWD": "/"}
    text = "sh -c 'echo $OLDPWD'; cd - >&2; pwd"
    command = [info.path, *_dialect(info).options, "-c", text]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.stdout == "/\n/\n") == SHELLS[info.kind].starts_as_if_by_cd(info)


@pytest.mark.parametrize(
    ("kind", "version", "does"),
    [
        ("bash", "5.2.15", True),
        ("bash", "4.4", True),
        ("bash", "4.3.48", False),
        ("bash", "3.2.57", False),
        ("bash", "", False),
        ("zsh", "5.9", False),
        ("sh", "", True),
    ],
)
def test_shell_versions_that_start_as_if_by_a_cd(kind: str, version: str, does: bool) -> None:
    shell = SHELLS[_kind(kind)]
    assert shell.starts_as_if_by_cd(ShellInfo(shell.kind, f"/bin/{kind}", version)) == does


def test_default_shell_is_bash_and_then_sh() -> None:
    assert [candidate.path for candidate in candidates()] == [
        *("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash", "bash"),
        *("/bin/sh", "/usr/bin/sh", "sh"),
    ]
    assert candidates(None) == candidates("bash") + candidates("sh")


def test_kind_is_searched_in_usual_places_and_then_on_path() -> None:
    assert [candidate.path for candidate in candidates("zsh")] == [
        *("/bin/zsh", "/usr/bin/zsh", "/usr/local/bin/zsh", "/opt/homebrew/bin/zsh", "zsh"),
    ]
    assert {candidate.kind for candidate in candidates("zsh")} == {"zsh"}
    assert [(candidate.kind, candidate.path) for candidate in candidates("dash")] == [("sh", "dash")]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/x/bash", "bash"),
        ("/x/zsh", "zsh"),
        ("/x/sh", "sh"),
        ("/x/dash", "sh"),
        ("/a b/ash", "sh"),
        ("/opt/pwsh", "pwsh"),
        (r"C:\Program Files\Git\bin\bash.exe", "bash"),
        ("C:/ps7/PWSH.EXE", "pwsh"),
        (r"\\host\share\powershell.exe", "powershell"),
    ],
)
def test_path_is_tried_alone_and_its_name_gives_its_kind(path: str, kind: str) -> None:
    assert [(candidate.kind, candidate.path) for candidate in candidates(path)] == [(kind, path)]


@pytest.mark.parametrize(
    "request_", ["fish", "/usr/bin/fish", "", "/", "BASH", "bash ", "/bin/bash/", "/a\0b/bash"]
)
def test_unknown_shell_is_refused_with_a_list_of_known_shells(request_: str) -> None:
    with pytest.raises(InvalidCommand, match="bash, zsh, sh, dash, ash") as caught:
        candidates(request_, source="ANYSHELL_SHELL")
    assert str(caught.value).startswith(f"ANYSHELL_SHELL: {request_!r}")


@pytest.mark.parametrize("path", ["./bash", "bin/zsh", "~/bin/bash", "C:pwsh.exe"])
def test_a_relative_path_to_a_shell_is_refused(path: str) -> None:
    with pytest.raises(InvalidCommand, match="absolute"):
        candidates(path)


def _answer(program: str, arguments: tuple[str, ...]) -> str:
    command = [program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout


def test_a_shell_answers_with_its_version(info: ShellInfo) -> None:
    (candidate,) = candidates(f"/x/{info.kind}")
    answer = _answer(info.path, candidate.arguments)
    assert re.fullmatch(r"anyshell \n" if info.kind == "sh" else r"anyshell \d+\.\d+[\w.]*\n", answer)


@pytest.mark.parametrize("kind", ["bash", "zsh"])
@pytest.mark.parametrize("stub", ["dash", "busybox", "sh", "true", "echo", "cat"])
def test_other_programs_do_not_answer_as_bash_or_zsh(kind: str, stub: str, tmp_path: Path) -> None:
    path = tmp_path / ("ash" if stub == "busybox" else kind)
    path.symlink_to(_require(stub))
    if stub == "sh" and os.path.realpath(path).endswith(kind):
        pytest.skip(f"sh is {kind} on this host")
    (candidate,) = candidates(f"/x/{kind}")
    # Also without the options, which most shells do not know and reject.
    for arguments in (candidate.arguments, candidate.arguments[-2:]):
        assert not re.search(r"^anyshell", _answer(str(path), arguments), re.MULTILINE)


@pytest.mark.parametrize("stub", ["true", "echo", "cat"])
def test_programs_other_than_shells_do_not_answer_as_sh(stub: str) -> None:
    (candidate,) = candidates("/x/sh")
    assert not re.search(r"^anyshell", _answer(_require(stub), candidate.arguments), re.MULTILINE)


def test_missing_shell_error_has_tried_paths_and_install_hint() -> None:
    tried = ["/bin/zsh: not found", "/usr/bin/zsh: not found", "zsh: not found"]
    error = not_found("zsh", iter(tried))
    assert error.tried == tuple(tried)
    for part in (*tried, "'zsh'", "apt-get install zsh", "apk add zsh", "brew install zsh", "ANYSHELL_SHELL"):
        assert part in str(error)
    assert "brew install bash" in str(not_found(None, []))
    assert "'/opt/x/ash'" in str(not_found("/opt/x/ash", ["/opt/x/ash: not found"]))


def test_every_shell_is_listed_under_its_own_kind() -> None:
    assert [(kind, shell.kind) for kind, shell in SHELLS.items()] == [
        (kind, kind) for kind in get_args(ShellKind)
    ]
    with pytest.raises(TypeError):
        SHELLS["bash"] = SHELLS["sh"]  # type: ignore[index]  # it must not be writable
