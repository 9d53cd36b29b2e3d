"""The user's own set-up: its parts in a shell, its excluded parts, and startup files that misbehave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Approved, Environment, OutputLimits, ShellTool
from anyshell._environment import snapshot as snapshot_module
from anyshell.shells.snapshot import DIALECTS, SetUp

from .cli_program import anyshell
from .conftest import NOBODY, missing
from .processes import living, unique_seconds
from .ssh_server import embedded, is_root

if TYPE_CHECKING:
    from anyshell import ApprovalRequest

assert sys.platform != "win32"  # else mypy checks the code below on every platform

pytestmark = pytest.mark.anyio

TOKEN = "tOkEn-9f27c1d84e"

LONG = "# " + "x" * 200_000 + "\n"

FILES = {"bash": ".bashrc", "zsh": ".zshrc", "sh": ".shinit"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory for the test, empty at first."""
    path = tmp_path / "home"
    path.mkdir()
    for name in ("ANYSHELL_STATE_DIR", "XDG_STATE_HOME", "ZDOTDIR", "BASH_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("ENV", "$HOME/.shinit")
    return path


def kept(home: Path) -> list[Path]:
    """The kept snapshots."""
    return sorted((home / ".local/state/anyshell/snapshots").iterdir())


async def detected(home: Path, text: str, shell: str = "bash", **how: Any) -> Environment:
    if shutil.which(shell) is None:
        missing(shell, f"install {shell}")
    (home / FILES[shell]).write_text(text)
    return await Environment.detect(shell=shell, snapshot=True, cwd=home, **how)


async def text_of(env: Environment, command: str) -> str:
    return (await env.run(command)).output.text


# # --- parts of a snapshot --------------------------------------------------------------------------------------

ALIASES = """alias hi='echo "it'\\''s";
echo two' later=hi
"""

FUNCTIONS = """f() { cat <<END
$1 "quoted" `echo run`
END
}
glob() { case $1 in (a|b) echo ab;; esac; }
"""

SET_UP = {
    "bash": "case $- in *i*) ;; *) return;; esac\nalias ..='echo up'; alias -- -='echo minus'\na.b-c() { :; }\n"
    + ALIASES + "shopt -s extglob nullglob\nset -o pipefail\n"
    "ext() { case $1 in @(a|b)) echo ab;; esac; }\nshared() { echo shared; }; export -f shared\n" + FUNCTIONS,
    "zsh": ALIASES + "alias -g LOUD='| tr a-z A-Z'\nsetopt extendedglob nullglob pipefail ksharrays rcquotes\n"
    "autoload -Uz zmv is-at-least\n" + FUNCTIONS,
    "sh": ALIASES + "set -C\n",
}  # fmt: skip

SETS_PATH = "PATH=$HOME/bin:$PATH\n"


@pytest.mark.parametrize("before", ["", LONG], ids=["short", "long"])
@pytest.mark.parametrize("shell", list(SET_UP))
async def test_fresh_shell_starts_from_the_snapshot(shell: str, before: str, home: Path) -> None:
    env = await detected(home, SET_UP[shell] + SETS_PATH, shell)
    assert env.snapshot_notices == ()
    assert env.snapshot == str(kept(home)[0])
    assert await text_of(env, before + "hi; later") == "it's\ntwo\nit's\ntwo\n"
    assert await text_of(env, before + "echo ${PATH%%:*} $0 $#") == f"{home}/bin {shell} 0\n"
    assert (await env.run(before + "cat; exit 3", stdin="given")).output.text == "given"
    failed = await text_of(env, before + "\n\nno-such-program")
    assert f"{before.count(chr(10)) + 3}" in failed.split("no-such-program")[0]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_functions_are_restored_unchanged(shell: str, home: Path) -> None:
    env = await detected(home, SET_UP[shell], shell)
    assert (await text_of(env, "f 1; glob a")).replace("\n\n", "\n") == '1 "quoted" run\nab\n'
    if shell == "bash":
        assert await text_of(env, "..; -; a.b-c") == "up\nminus\n"
        assert await text_of(env, "ext b; bash -c shared; echo nothing*here; false | true; echo $?") == (
            "ab\nshared\n\n1\n"
        )
    else:
        assert await text_of(
            env, "echo abc LOUD; is-at-least 1 2; echo $?; print -- x^y*; false | true; echo $?"
        ) == ("ABC\n0\n\n1\n")


@pytest.mark.parametrize("shell", list(SET_UP))
async def test_shell_started_from_a_snapshot_has_the_same_set_up(
    shell: str, home: Path, tmp_path: Path
) -> None:
    env = await detected(home, SET_UP[shell] + SETS_PATH, shell)
    assert env.snapshot is not None
    first = told(shell, env.shell.path, home, home / FILES[shell])
    (tmp_path / FILES[shell]).write_bytes(Path(env.snapshot).read_bytes())
    second = told(shell, env.shell.path, home, tmp_path / FILES[shell])
    assert first.definitions
    assert (second.definitions, second.options, second.path) == (first.definitions, first.options, first.path)


def told(shell: Any, path: str, home: Path, file: Path) -> SetUp:
    dialect = DIALECTS[shell]
    places = [str(file.parent), str(home)] if shell == "zsh" else [str(file)]
    done = subprocess.run(
        ["env", "-u", "ENV", *dialect.capture(path, places)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    set_up = dialect.understand(done.stdout)
    assert set_up is not None
    return set_up


SHADOWED = "cd eval shift unset builtin set trap exec read alias unalias shopt env command export declare typeset printf"


@pytest.mark.parametrize("before", ["", LONG], ids=["short", "long"])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_functions_and_aliases_named_like_builtins_do_no_harm(
    shell: str, before: str, home: Path
) -> None:
    functions = "".join(
        f"function {name} {{ : {name}; }}\n" for name in SHADOWED.split() if name != "builtin"
    )
    aliases = "".join(f"alias {name}=no-such-program\n" for name in SHADOWED.split()[:6])
    env = await detected(home, "alias one='/bin/echo 1'\n" + aliases + functions, shell)
    assert env.snapshot_notices == ()
    assert await text_of(env, before + "one\n\\eval '/bin/echo 2'; \\cd /; /bin/echo $#") == "1\n0\n"
    assert "no-such-program" in await text_of(env, before + "cd /")


async def test_function_hiding_a_builtin_is_left_out_with_a_notice(home: Path) -> None:
    env = await detected(home, "builtin() { :; }\nf() { echo f; }\n")
    assert await text_of(env, "f; builtin echo 1") == "f\n1\n"
    assert env.snapshot_notices == ("left out: function builtin, which would hide the shell's own",)


async def test_zsh_reads_the_directory_that_its_zshenv_names(home: Path) -> None:
    (home / "zsh").mkdir()
    (home / "zsh/.zshrc").write_text("f() { echo there; }\n")
    (home / ".zshenv").write_text("ZDOTDIR=$HOME/zsh\ng() { echo here; }\n")
    assert await text_of(await detected(home, "f() { echo wrong; }", "zsh"), "f; g") == "there\nhere\n"
    (home / "zsh/.zshrc").write_text("f() { echo changed; }\n")
    assert await text_of(await detected(home, "f() { echo wrong; }", "zsh"), "f; g") == "changed\nhere\n"


# # --- excluded parts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", list(SET_UP))
async def test_token_in_a_startup_file_is_not_exposed(shell: str, home: Path) -> None:
    plants = (
        f"export TOKEN={TOKEN}\nplain={TOKEN}x\necho $TOKEN; echo $TOKEN >&2\nps ww -A -o args >$HOME/ps\n"
    )
    uses = "alias use='echo \"<$TOKEN$plain>\"'\n"
    env = await detected(home, plants + uses, shell, limits=OutputLimits(head=2**20, max_line=2**20))
    seen = await text_of(env, "use; env; set; ps ww -A -o args")
    assert "<>\n" in seen
    assert TOKEN not in seen
    assert TOKEN not in repr((env.snapshot_notices, env.description, env.info))
    assert TOKEN not in (home / "ps").read_text()
    (home / "ps").unlink()
    (home / FILES[shell]).unlink()
    state = [path for path in home.rglob("*") if path.is_file()]
    assert state == kept(home)
    assert TOKEN.encode() not in state[0].read_bytes()


async def test_definition_with_an_exported_value_is_left_out_with_a_notice(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", "of the host's")
    text = f"""export TOKEN={TOKEN} TOOLS=/usr/share/tools QUOTED="it's a token" KEY=$'first line\\nsecond line'
eval "leak() {{ echo $TOKEN; }}"
alias leaks="echo $TOKEN"
quoted() {{ echo "it's a token"; }}; alias quotes="echo $QUOTED"
lines() {{ echo second line; }}
inherits() {{ echo "of the host's"; }}
place() {{ echo /usr/share/tools; }}
silent() {{ DEBIAN_FRONTEND=noninteractive $EDITOR; }}
use() {{ echo "<$TOKEN>"; }}
"""
    env = await detected(home, text)
    left_out = "function inherits, function leak, function lines, function quoted, alias leaks and 1 more"
    assert env.snapshot_notices == (
        f"left out, because they contain the value of an exported variable: {left_out}; write $NAME there",
    )
    assert await text_of(env, "use; place; silent; type leak leaks 2>/dev/null") == "<>\n/usr/share/tools\n"
    assert TOKEN not in kept(home)[0].read_text()


async def test_an_exported_function_is_no_value(home: Path) -> None:
    env = await detected(home, "f() { echo a long line of mine; }; export -f f\n")
    assert env.snapshot_notices == ()
    assert await text_of(env, "bash -c f") == "a long line of mine\n"


async def test_interactive_options_are_left_out(home: Path) -> None:
    look = "echo x; set +o | grep -e vi -e monitor -e xtrace -e verbose; shopt -p histappend checkwinsize nullglob"
    async with Environment.detect(shell="bash", cwd=home) as without:
        before = await text_of(without, look)
    assert "shopt -u histappend\n" in before
    assert "shopt -u nullglob\n" in before
    opposite = "-u" if "shopt -s checkwinsize" in before else "-s"
    text = f"set -o vi -x -v\nset -m\nshopt -s histappend nullglob\nshopt {opposite} checkwinsize\n"
    env = await detected(home, text)
    assert await text_of(env, look) == before.replace("shopt -u nullglob", "shopt -s nullglob")


async def test_no_history_is_written(home: Path) -> None:
    (home / ".bash_history").write_text("old\n")
    await detected(home, "HISTFILE=$HOME/.bash_history\nset -o history; history -s new\n")
    await detected(home, "HISTFILE=$HOME/.bash_history\nset -o history; history -s new; exit\n")
    assert (home / ".bash_history").read_text() == "old\n"


# # --- startup files that misbehave -----------------------------------------------------------------------------


@pytest.mark.parametrize("shell", list(SET_UP))
async def test_asking_startup_file_gets_no_answer_and_its_output_is_dropped(shell: str, home: Path) -> None:
    seconds = unique_seconds()
    text = f"""printf 'end\\0\\0\\0'; echo noise >&2
echo 'Update now? '; read answer
read tty </dev/tty
alias after='echo after'
(while sleep 0.01; do echo noise; done; sleep {seconds}) &
"""
    env = await detected(home, text, shell)
    assert env.snapshot_notices == ()
    assert await text_of(env, "after") == "after\n"
    assert not living(seconds)


@pytest.mark.parametrize("shell", list(SET_UP))
async def test_hanging_startup_file_is_stopped_with_a_notice(
    shell: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "SNAPSHOT_SECONDS", 0.4)
    seconds = unique_seconds()
    env = await detected(home, f"alias a=b; sleep {seconds}\n", shell)
    assert env.snapshot is None
    assert "took longer than 0.4 s" in env.snapshot_notices[0]
    assert await text_of(env, "echo runs") == "runs\n"
    assert not living(seconds)
    assert kept(home) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("false", "{} returned 1"),
        ("return 7", "{} returned 7"),
        ("set -e; false; alias never=b", "{} ended the shell with 1: the rest of the file is missing"),
        ("exit 3", "{} ended the shell with 3: the rest of the file is missing"),
        ("trap 'echo bye' EXIT; false", "{} returned 1"),
        ("exec true", "your own set-up is not used: {} did not run to the end"),
        ("kill -9 $$", "your own set-up is not used: {} did not run to the end"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "sh"])
async def test_failing_startup_file_gives_a_notice_and_stops_nothing(
    shell: str, text: str, said: str, home: Path
) -> None:
    env = await detected(home, f"alias before='echo before'\n{text}\n", shell)
    file = home / FILES[shell]
    if "not used" in said:
        assert said.split("{}")[1] in env.snapshot_notices[0]
        assert await text_of(env, "echo runs") == "runs\n"
        return
    assert env.snapshot_notices == (said.format(file),)
    assert (await text_of(env, "before")) == "before\n"
    again = await Environment.detect(shell=shell, snapshot=True)
    assert again.snapshot_notices == env.snapshot_notices


@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_syntax_error_in_a_startup_file_gives_a_notice(shell: str, home: Path) -> None:
    env = await detected(home, "alias before='echo before'\nif then\n", shell)
    assert len(env.snapshot_notices) == 1
    assert await text_of(env, "before") == "before\n"


async def test_user_without_a_startup_file_gets_no_notice(home: Path) -> None:
    async with Environment.detect(shell="bash", snapshot=True) as env:
        assert (await env.run("echo runs")).output.text == "runs\n"
        assert env.snapshot_notices == ()


async def test_sh_without_a_startup_file_gives_a_notice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENV")
    env = await detected(home, "alias a=b", "sh")
    assert env.snapshot is None
    assert "ENV is not set" in env.snapshot_notices[0]
    assert await text_of(env, "echo runs") == "runs\n"


async def test_shell_with_endless_answer_is_stopped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "LONGEST_TOLD", 100_000)
    env = await detected(home, f"alias a='{'x' * 200_000}'\n")
    assert env.snapshot is None
    assert "makes more than" in env.snapshot_notices[0]


# # --- storage --------------------------------------------------------------------------------------------------

COUNTS = "echo >>$HOME/count\nalias a='echo 1'\n"


def reads(home: Path) -> int:
    return len((home / "count").read_text())


@pytest.mark.parametrize("shell", list(SET_UP))
async def test_startup_file_is_read_again_only_after_a_change(shell: str, home: Path) -> None:
    for _ in range(3):
        assert await text_of(await detected(home, COUNTS, shell), "a") == "1\n"
    assert reads(home) == 1
    assert await text_of(await detected(home, COUNTS + "alias a='echo 2'", shell), "a") == "2\n"
    assert reads(home) == 2
    assert len(kept(home)) == 1


async def test_kept_snapshot_is_private(home: Path) -> None:
    await detected(home, COUNTS)
    assert [path.stat().st_mode & 0o777 for path in kept(home)] == [0o600]
    assert kept(home)[0].parent.stat().st_mode & 0o777 == 0o700


HARMS = ["cut", "changed", "no JSON", "a header of another form", "writable", "link"]


@pytest.mark.parametrize(
    "harm", [*HARMS, *(["another's"] if is_root() else [])]
)  # only root can make a snapshot of another user
async def test_untrusted_snapshot_is_made_anew(harm: str, home: Path, tmp_path: Path) -> None:
    await detected(home, COUNTS)
    file = kept(home)[0]
    text = file.read_bytes()
    if harm == "cut":
        file.write_bytes(text[:-5])
    elif harm == "changed":
        file.write_bytes(text.replace(b"echo 1", b"echo 3"))
    elif harm == "no JSON":
        file.write_bytes(b"alias a='echo 3'\n")
    elif harm == "a header of another form":
        head, _, rest = text.partition(b"\n")
        file.write_bytes(b"# " + json.dumps({**json.loads(head[2:]), "files": 3}).encode() + b"\n" + rest)
    elif harm == "writable":
        file.chmod(0o620)
    elif harm == "link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif harm == "another's":
        os.chown(file, NOBODY, NOBODY)
    assert await text_of(await detected(home, COUNTS), "a") == "1\n"
    assert reads(home) == 2
    assert file.stat().st_mode & 0o777 == 0o600
    assert not file.is_symlink()


async def test_snapshot_directory_that_is_a_link_is_not_used(home: Path, tmp_path: Path) -> None:
    directory = home / ".local/state/anyshell/snapshots"
    directory.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    directory.symlink_to(tmp_path / "elsewhere")
    env = await detected(home, COUNTS)
    assert env.snapshot is None
    assert "not a directory of yours alone" in env.snapshot_notices[0]
    assert await text_of(env, "echo runs") == "runs\n"
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_number_of_kept_snapshots_is_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "KEPT", 2)
    (home / "other").write_text("stays")
    for name in ("a", "b", "c"):
        monkeypatch.setenv("PATH", f"/{name}:/usr/bin:/bin")
        env = await detected(home, COUNTS)
        assert (await text_of(env, "echo $PATH")).startswith(f"/{name}:")
    assert len(kept(home)) == 2
    assert reads(home) == 3


async def test_missing_snapshot_is_reported_and_the_command_runs(home: Path) -> None:
    env = await detected(home, COUNTS)
    kept(home)[0].unlink()
    text = await text_of(env, "echo runs")
    assert text == f"anyshell: your own set-up could not be read from {env.snapshot}\nruns\n"


# # --- reports --------------------------------------------------------------------------------------------------


async def test_approver_sees_the_session_and_cd_is_not_rewritten(home: Path) -> None:
    seen: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> Approved:
        seen.append(request)
        return Approved()

    env = await detected(home, "cd() { echo mine; }\n")
    result = await ShellTool(env, approver=approve)({"command": "cd / && echo after"})
    assert result.output == "mine\nafter\n"
    assert seen[0].snapshot == env.snapshot
    assert f"Starts from the user's own set-up: {env.snapshot}" in seen[0].display.splitlines()


def test_snapshot_option_reports_a_failed_startup_file(home: Path) -> None:
    (home / ".bashrc").write_text("alias a='echo 1'\nfalse\n")
    done = anyshell("run", "--snapshot", "--", "a")
    assert (done.returncode, done.stdout) == (0, b"1\n")
    assert done.stderr.decode() == f"anyshell: {home}/.bashrc returned 1\n"


async def test_host_has_its_own_snapshot(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = home / "there"
    there.mkdir()
    (there / ".bashrc").write_text(COUNTS + f'export TOKEN={TOKEN}\nuse() {{ echo "<$TOKEN>"; }}\nfalse\n')
    monkeypatch.setenv("ANYSHELL_TEST_HOME", str(there))
    nice = min(os.nice(0) + 7, 19)  # these tests may run with a lower priority themselves
    with embedded() as server:
        for _ in range(2):
            async with Environment.detect(server.options(), snapshot=True, prefix="nice -n 7") as env:
                assert env.snapshot_notices == (f"{there}/.bashrc returned 1",)
                assert await text_of(env, "a; use; nice") == f"1\n<>\n{nice}\n"
                assert await text_of(env, LONG + "a; nice") == f"1\n{nice}\n"
    assert reads(there) == 1
    assert [path.stat().st_mode & 0o777 for path in kept(there)] == [0o600]
    assert TOKEN not in kept(there)[0].read_text()


async def test_description_mentions_the_set_up_of_a_snapshot(home: Path) -> None:
    env = await detected(home, "f() { :; }")
    assert "It has the user's aliases, functions, options and PATH." in env.description
    assert "aliases" not in (await Environment.detect(shell="bash")).description


async def test_missing_home_gives_a_notice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(home / "state"))
    monkeypatch.setenv("HOME", str(home / "gone"))
    async with Environment.detect(shell="bash", snapshot=True) as env:
        assert (await env.run("echo runs")).output.text == "runs\n"
        assert env.snapshot is None
        assert "its snapshot cannot be made or kept" in env.snapshot_notices[0]


async def test_stopped_startup_file_may_release_its_locks(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "SNAPSHOT_SECONDS", 1.0)
    lock = home / "lock"
    text = f"mkdir {lock}; trap 'rmdir {lock}; exit' TERM; : >{home}/held; sleep {unique_seconds()}\n"
    env = await detected(home, text, "bash")
    assert "took longer than 1 s" in env.snapshot_notices[0]
    assert (home / "held").exists()
    assert not lock.exists()
