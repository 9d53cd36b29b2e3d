"""Sessions: what lasts, what a stop leaves, what ends them, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anyshell import AnyshellError, Environment, InvalidCommand, SpawnError
from anyshell.session import session as sessions

from .conftest import open_to_all
from .processes import living, open_descriptors, unique_seconds, wait_asleep
from .ssh_server import is_root
from .test_session_texts import SHELLS, shell_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyshell import Outcome, Session, SessionReport

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

EVERYWHERE = [*(f"local {shell}" for shell in SHELLS), *(f"ssh {shell}" for shell in ("bash", "zsh", "dash"))]


@pytest.fixture(params=EVERYWHERE)
async def env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    """Each shell on this machine, and most over a real sshd."""
    place, shell = request.param.split()
    host = "local" if place == "local" else ssh_host("openssh as a user").options()
    open_to_all(tmp_path)
    tmp_path = tmp_path / "home"
    tmp_path.mkdir(mode=0o777)
    tmp_path.chmod(0o777)
    async with Environment.detect(host, shell=shell_path(shell, tmp_path), cwd=tmp_path) as environment:
        yield environment


@pytest.fixture(params=SHELLS)
async def local(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    """Each shell on this machine."""
    async with Environment.detect(shell=shell_path(request.param, tmp_path), cwd=tmp_path) as environment:
        yield environment


@pytest.fixture
async def bash(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    async with Environment.detect(shell="bash", cwd=tmp_path) as environment:
        yield environment


async def printed(session: Session, text: str) -> str:
    """What a text prints that ends well and loses nothing."""
    outcome = await session.run(text, timeout=30)
    assert outcome.session is not None
    assert (outcome.status, outcome.session.state, outcome.session.fresh) == ("exited", "kept", ""), outcome
    return outcome.output.text


@pytest.fixture(params=["bash", "zsh", "dash"])
async def far(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    """Shells over a real sshd."""
    open_to_all(tmp_path)
    host = ssh_host("openssh as a user").options()
    async with Environment.detect(host, shell=request.param, cwd=tmp_path) as environment:
        yield environment


def reported(outcome: Outcome) -> SessionReport:
    """What an outcome says of its session."""
    assert outcome.session is not None, outcome
    return outcome.session


async def wait_for(file: Path) -> None:
    """Wait until a text has made a file: it has come as far as that."""
    async with asyncio.timeout(20):
        while not file.exists():
            await asyncio.sleep(0.002)


# --- What lasts


async def test_what_one_text_sets_up_is_there_for_the_next(env: Environment) -> None:
    async with env.session() as session:
        await printed(
            session,
            "A=1; B='two\n  lines'; export C=3; f() { echo \"f $1 $A\"; }; alias hi='echo hello'; "
            "set -o noglob; umask 027; trap 'echo trapped' USR1; mkdir -p 'a b'; cd 'a b'; sub=$(echo sub)",
        )
        assert await printed(session, 'f x; hi; echo "$B" $sub; umask; echo *; sh -c \'echo "$C$A"\'') == (
            "f x 1\nhello\ntwo\n  lines sub\n" + ("027" if env.shell.kind == "zsh" else "0027") + "\n*\n3\n"
        )
        assert await printed(session, "kill -s USR1 $$; :; pwd") == f"trapped\n{env.directory}/a b\n"
        assert (await session.run("(exit 42)")).exit_code == 42
        assert await printed(session, "echo $?; echo $?") == "42\n0\n"
        assert session.directory == f"{env.directory}/a b"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_arrays_and_options_of_bash_and_zsh_last(shell: str, tmp_path: Path) -> None:
    async with Environment.detect(shell=shell, cwd=tmp_path) as env, env.session() as session:
        option = "shopt -s nullglob" if shell == "bash" else "setopt null_glob"
        await printed(session, f"a=(1 '2 3' 4); typeset -A m; m[k]='v w'; {option}; set -- x 'y z'")
        assert await printed(session, 'printf "[%s]" "${a[@]}" "${m[k]}" "$@"; echo *.none') == (
            "[1][2 3][4][v w][x][y z]\n"
        )


async def test_the_directory_is_told_whatever_its_name(env: Environment) -> None:
    async with env.session() as session:
        for name in ["a b", "line\nfeed\n", 'it\'s "q" $x \\ `y`', "ünï", "-n"]:
            outcome = await session.run('mkdir -- "$N" && cd -- "./$N"', env={"N": name}, cwd=env.directory)
            assert outcome.session is not None
            assert outcome.session.directory == session.directory == f"{env.directory}/{name}"


async def test_what_became_of_the_exported_variables_is_told(env: Environment) -> None:
    async with env.session() as session:
        await printed(session, "export GOES=1 STAYS=1 CHANGES=1; LOCAL=1")
        outcome = await session.run(
            "unset GOES; export CHANGES='two\n lines=' NEW=; LOCAL=2; cd /", variables=True
        )
        assert outcome.session is not None
        assert outcome.session.variables == {"GOES": None, "CHANGES": "two\n lines=", "NEW": ""}
        outcome = await session.run(":", variables=True)
        assert outcome.session is not None
        assert outcome.session.variables == {}
        outcome = await session.run(":")
        assert outcome.session is not None
        assert outcome.session.variables is None


async def test_a_directory_and_variables_that_are_given_stay(env: Environment) -> None:
    async with env.session(cwd="/usr", env={"FIRST": "1"}) as session:
        assert await printed(session, "pwd; echo $FIRST") == "/usr\n1\n"
        outcome = await session.run('pwd; echo "$GIVEN"', cwd="bin/..", env={"GIVEN": "it's\n$x"})
        assert outcome.output.text == "/usr\nit's\n$x\n"
        assert await printed(session, 'echo "$FIRST $GIVEN"') == "1 it's\n$x\n"
        with pytest.raises(InvalidCommand, match="none"):
            await session.run("echo no", cwd="/none")
        with pytest.raises(InvalidCommand):
            await session.run("echo a\0b")
        assert await printed(session, "echo on") == "on\n"


# --- What goes through


async def test_input_output_and_errors_are_bytes_of_any_size(env: Environment) -> None:
    data = random.Random(1).randbytes(1_000_000)
    async with env.session() as session:
        outcome = await session.run("wc -c; cksum", stdin=b"")
        assert outcome.output.text.split()[0] == "0"
        outcome = await session.run("tee copy | wc -c; echo err >&2", stdin=data, split_stderr=True)
        assert outcome.stderr is not None
        assert (outcome.output.text.strip(), outcome.stderr.text) == ("1000000", "err\n")
        outcome = await session.run("cat copy")
        assert outcome.output.total_bytes == len(data)
        assert await env.files.read(f"{env.directory}/copy") == data
        assert await printed(session, "cat") == ""


async def test_large_input_and_output_go_through_whole(bash: Environment) -> None:
    async with bash.session() as session:
        outcome = await session.run("cat", stdin=bytes(10_000_000))
        assert outcome.output.total_bytes == 10_000_000
        outcome = await session.run("head -c 50000000 /dev/zero; A=1")
        assert outcome.output.total_bytes == 50_000_000
        assert await printed(session, "echo $A") == "1\n"


async def test_what_a_process_left_behind_prints_is_in_no_other_output(env: Environment) -> None:
    seconds = unique_seconds()
    async with env.session() as session:
        outcome = await session.run(
            f"(while [ ! -e go ]; do sleep 0.01; done; echo late; : >done; exec sleep {seconds}) & echo first",
            left_behind="keep",
        )
        assert outcome.output.text == "first\n"
        assert outcome.left_behind
        waited = await printed(session, ": >go; while [ ! -e done ]; do sleep 0.01; done; echo second")
        assert waited == "second\n"
        await printed(session, "kill $!")


# --- What ends a session


@pytest.mark.parametrize(
    ("text", "code"), [("exit 7", 7), ("exec sh -c 'exit 8'", 8), ("set -e; f() { false; }; f; echo no", 1)]
)
async def test_the_end_of_the_shell_is_said_and_the_next_command_has_a_fresh_one(
    env: Environment, text: str, code: int
) -> None:
    async with env.session() as session:
        await printed(session, "A=1; cd /")
        outcome = await session.run(f"echo before; {text}")
        assert outcome.session is not None
        assert (outcome.exit_code, outcome.session.state) == (code, "ended")
        assert (outcome.output.text, outcome.session.directory) == ("before\n", None)
        fresh = await session.run('echo "${A-gone}"; pwd')
        assert fresh.session is not None
        assert fresh.output.text == f"gone\n{env.directory}\n"
        assert "ended the shell" in fresh.session.fresh
        assert await printed(session, "echo on") == "on\n"


async def test_an_exit_trap_prints_to_the_command_that_ends_the_shell(local: Environment) -> None:
    async with local.session() as session:
        outcome = await session.run("trap 'echo bye; echo error >&2' EXIT; echo before; exit 3")
        assert (outcome.exit_code, outcome.output.text) == (3, "before\nbye\nerror\n")


async def test_a_shell_that_is_killed_from_outside_is_said_and_the_next_works(env: Environment) -> None:
    async with env.session() as session:
        outcome = await session.run("echo before; kill -9 $$; echo no")
        assert outcome.session is not None
        assert (outcome.signal, outcome.session.state) == ("SIGKILL", "ended")
        assert outcome.output.text == "before\n"
        assert (await session.run("echo on")).output.text == "on\n"


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private directories are made."""
    path = tmp_path / "private"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


async def test_a_private_directory_that_is_gone_is_an_error_that_names_the_way_out(
    local: Environment, private: Path
) -> None:
    async with local.session() as session:
        await printed(session, "A=1")
        (directory,) = private.iterdir()
        shutil.rmtree(directory)
        with pytest.raises(SpawnError, match="restart"):
            await session.run("echo no")
        await session.restart()
        outcome = await session.run("echo on")
        assert outcome.session is not None
        assert (outcome.output.text, outcome.session.fresh) == ("on\n", "the session was restarted")


# --- Stopping

STOPPED = {
    "a list": "sleep 300; touch X",
    "and, or": "sleep 300 && touch X || touch X; touch X",
    "lines": "sleep 300\ntouch X",
    "a function": "f() { sleep 300; touch X; }; f; touch X",
    "functions": "g() { sleep 300; }; f() { g; touch X; }; f; touch X",
    "a loop in a function": "f() { while true; do sleep 300; touch X; done; }; f; touch X",
    "for": "for i in 1 2 3; do sleep 300; touch X; done; touch X",
    "until": "until sleep 300; do touch X; done; touch X",
    "if": "if sleep 300; then touch X; else touch X; fi; touch X",
    "case": "case x in x) sleep 300; touch X;; esac; touch X",
    "not": "! sleep 300; touch X",
    "a group": "{ sleep 300; touch X; }; touch X",
    "a busy loop": "while :; do :; done; touch X",
    "a busy function": "f() { while :; do :; done; }; f; touch X",
    "arithmetic": "i=0; while [ $i -ge 0 ]; do i=$((i+1)); done; touch X",
    "forks": "while :; do /bin/true; done; touch X",
    "functions that fork": "f() { for i in 1 2 3; do /bin/true; done; }; while :; do f; done; touch X",
    "a substitution": "x=$(sleep 300); touch X",
    "a substitution in a function": "f() { x=$(sleep 300; touch X); touch X; }; f; touch X",
    "a pipe": "sleep 300 | cat; touch X",
    "a pipe into a loop": "yes | while read x; do :; done; touch X",
    "a subshell": "(sleep 300; touch X); touch X",
    "subshells": "(f() { (sleep 300; touch X); touch X; }; f; touch X); touch X",
    "a file": 'echo "sleep 300; touch X" >src; . ./src; touch X',
    "files": 'echo "echo \\"sleep 300; touch X\\" >b; . ./b; touch X" >a; . ./a; touch X',
    "eval": "eval 'eval \"sleep 300; touch X\"; touch X'; touch X",
    "wait": "sleep 300 & wait; touch X",
    "a reader": "mkfifo p; exec 5<>p; while read x <&5; do touch X; done; touch X",
    "a here-document": "cat <<END; touch X\n$(sleep 300)\nEND\ntouch X",
    "recursion": 'f() { [ "$1" = 5 ] && { sleep 300; touch X; }; f $(($1+1)); touch X; }; f 0; touch X',
    "deep": "a() { if true; then sleep 300; touch X; fi; touch X; }; b() { a; touch X; }; "
    "c() { for i in 1 2; do b; touch X; done; touch X; }; if true; then c; touch X; fi; touch X",
    "a trap for USR1": "trap 'sleep 300; touch X' USR1; kill -s USR1 $$; touch X",
    "a new session": "setsid sleep 300; touch X",
}
"""Texts that touch X when anything of them runs after a stop, and whose session is kept."""

STUBBORN = {
    "ignores TERM": "trap '' TERM; sleep 300; touch X",
    "a child that ignores TERM": "sh -c 'trap \"\" TERM; sleep 300; sleep 300'; touch X",
    "errexit": "set -e; sleep 300; touch X",
    "errexit, or": "set -e; f() { sleep 300; touch X; }; f || touch X; touch X",
    "ignores VTALRM": "trap '' VTALRM; sleep 300; touch X",
    "a trap for VTALRM": "trap 'touch X' VTALRM; sleep 300; touch X",
    "a trap for 26": "trap 'touch X' 26; sleep 300; touch X",
    "a variable of ours": "ANYSHELL_SET=1; sleep 300; touch X",
    "a function builtin": "builtin() { :; }; sleep 300; touch X",
}
"""The same; here the session may also be replaced, and must say so."""

STUBBORN_IN = {
    "bash": {
        "a DEBUG trap": "trap : DEBUG; sleep 300; touch X",
        "a DEBUG trap and a function": "trap : DEBUG; f() { sleep 300; touch X; }; f; touch X",
        "a RETURN trap": "trap 'touch X' RETURN; f() { sleep 300; }; f; touch X",
        "an ERR trap": "set -E; trap 'touch X' ERR; f() { sleep 300; touch X; }; f; touch X",
        "extdebug": "shopt -s extdebug; sleep 300; touch X",
        "functrace": "set -T; f() { sleep 300; touch X; }; f; touch X",
        "posix": "set -o posix; f() { sleep 300; touch X; }; f; touch X",
        "a loop with numbers": "for ((i = 0; ; i++)); do :; done; touch X",
        "a process substitution": "cat <(sleep 300); touch X",
    },
    "zsh": {
        "a DEBUG trap": "trap : DEBUG; sleep 300; touch X",
        "TRAPDEBUG": "TRAPDEBUG() { : }; sleep 300; touch X",
        "TRAPZERR": "TRAPZERR() { touch X }; sleep 300; touch X",
        "err_return": "setopt err_return; f() { sleep 300; touch X }; f; touch X",
        "emulate": "emulate sh; sleep 300; touch X",
        "always": "{ sleep 300 } always { touch X }; touch X",
        "an anonymous function": "() { sleep 300; touch X }; touch X",
    },
    "sh": {},
}


@dataclass(frozen=True)
class Stopped:
    name: str
    status: str
    state: str
    text_went_on: bool
    after: str


async def stop(env: Environment, directory: Path, name: str, text: str, grace: float) -> Stopped:
    directory.mkdir()
    async with env.session(cwd=directory) as session:
        await printed(session, "A=5")
        outcome = await session.run(text, timeout=0.25, grace=grace)
        after = await session.run('echo "${A-gone}"; :; echo more', timeout=30)
        assert outcome.session is not None
        assert after.session is not None
        fresh = "fresh" if after.session.fresh else "same"
        return Stopped(
            name,
            outcome.status,
            outcome.session.state,
            (directory / "X").exists(),
            f"{fresh} {after.status} {after.output.text}",
        )


async def test_nothing_of_a_text_runs_after_it_was_stopped_and_the_session_is_kept(
    local: Environment, tmp_path: Path
) -> None:
    stopped = await asyncio.gather(
        *(stop(local, tmp_path / str(i), *item, 20) for i, item in enumerate(STOPPED.items()))
    )
    for each in stopped:
        assert each == Stopped(each.name, "timed_out", "kept", False, "same exited 5\nmore\n")


async def test_a_text_that_will_not_be_stopped_loses_the_session_at_most_and_that_is_said(
    local: Environment, tmp_path: Path
) -> None:
    texts = STUBBORN | STUBBORN_IN[local.shell.kind]
    stopped = await asyncio.gather(
        *(stop(local, tmp_path / str(i), *item, 0.2) for i, item in enumerate(texts.items()))
    )
    for each in stopped:
        kept = Stopped(each.name, "timed_out", "kept", False, "same exited 5\nmore\n")
        lost = Stopped(each.name, "timed_out", "lost", False, "fresh exited gone\nmore\n")
        late = Stopped(each.name, "timed_out", "kept", False, "fresh exited gone\nmore\n")
        assert each in (kept, lost, late)  # the last: it was killed when it had just come back


async def test_a_stop_keeps_the_session_everywhere(env: Environment) -> None:
    async with env.session() as session:
        await printed(session, "A=5; f() { sleep 300; touch X; }")
        for text in ("f; touch X", "while :; do :; done; touch X"):
            outcome = await session.run(text, timeout=0.4, grace=20)
            assert outcome.session is not None
            assert (outcome.status, outcome.session.state) == ("timed_out", "kept"), text
        assert await printed(session, "echo $A; ls") in ("5\n", "5\nash\n")


async def test_cancelling_stops_the_text_and_keeps_the_session(local: Environment, tmp_path: Path) -> None:
    seconds = unique_seconds()
    async with local.session() as session:
        await printed(session, "A=5")
        task = asyncio.create_task(session.run(f"sleep {seconds}; touch X"))
        await asyncio.to_thread(wait_asleep, seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not living(f"sleep {seconds}")
        assert await printed(session, "echo $A") == "5\n"
        assert not (tmp_path / "X").exists()


async def test_an_interrupt_at_any_moment_hits_its_own_command_alone(local: Environment) -> None:
    moments = random.Random(4)
    async with local.session() as session:
        await printed(session, "A=5")
        for number in range(30):
            seconds = moments.choice((0.0005, 0.002, 0.02)) * moments.random()
            outcome = await session.run(
                f"f() {{ for i in 1 2 3 4 5 6 7; do echo {number}; done; return 9; }}; f",
                timeout=seconds + 1e-6,
                grace=20,
            )
            assert outcome.status in ("exited", "timed_out")
            assert outcome.status == "timed_out" or outcome.exit_code == 9
            # The other word is what some shells say of a process of their own that was asked to end.
            assert set(outcome.output.text.split()) <= {str(number), "Terminated"}
            after = await session.run(f"true; echo {number} $A; (exit 6)")
            assert after.session is not None
            assert (after.status, after.exit_code, after.session.state) == ("exited", 6, "kept")
            assert after.output.text == f"{number} 5\n"


async def test_a_stop_leaves_earlier_processes_and_other_sessions_alone(local: Environment) -> None:
    earlier, other = unique_seconds(), unique_seconds()
    async with local.session() as session, local.session() as second:
        kept = await session.run(f"sleep {earlier} &", left_behind="keep")
        assert kept.left_behind
        running = asyncio.create_task(second.run(f"sleep {other}; echo no"))
        await asyncio.to_thread(wait_asleep, other)
        outcome = await session.run("sleep 300", timeout=0.2)
        assert outcome.status == "timed_out"
        assert living(f"sleep {earlier}")
        assert living(f"sleep {other}")
        await second.restart()
        assert (await running).status == "cancelled"
        await printed(session, "kill $!")
    assert not living(f"sleep {other}")


# --- Its turn


async def test_commands_of_one_session_wait_their_turn_in_order(local: Environment) -> None:
    async with local.session() as session:
        outcomes = await asyncio.gather(*(session.run(f"A=${{A}}{n}; echo $A") for n in range(8)))
        assert [each.output.text for each in outcomes] == [f"{'01234567'[: n + 1]}\n" for n in range(8)]


async def test_the_clock_covers_the_wait_and_who_gives_up_disturbs_nobody(
    bash: Environment, tmp_path: Path
) -> None:
    async with bash.session() as session:
        first = asyncio.create_task(
            session.run(": >begun; while [ ! -e go ]; do sleep 0.01; done; echo first")
        )
        await wait_for(tmp_path / "begun")
        late = await session.run("touch X", timeout=0.05)
        assert (late.status, late.started, late.session) == ("timed_out", False, None)
        cancelled = asyncio.create_task(session.run("touch X"))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert not first.done()
        (tmp_path / "go").touch()
        assert (await first).output.text == "first\n"
        assert not (tmp_path / "X").exists()


async def test_two_sessions_run_side_by_side_and_know_nothing_of_each_other(bash: Environment) -> None:
    async with bash.session() as one, bash.session() as two:
        await asyncio.gather(one.run("A=1; cd /"), two.run("A=2; cd /usr"))
        left, right = await asyncio.gather(
            one.run("mkfifo $OLDPWD/p; echo $A >$OLDPWD/p; pwd"),
            two.run("while [ ! -p $OLDPWD/p ]; do sleep 0.01; done; cat $OLDPWD/p; echo $A"),
        )
        assert (left.output.text, right.output.text) == ("/\n", "1\n2\n")


async def test_a_session_with_a_name_is_shared_and_outlasts_its_block(bash: Environment) -> None:
    async with bash.session("agent") as session:
        await printed(session, "A=1")
    async with bash.session("agent") as again:
        assert again is session
        assert await printed(again, "echo $A") == "1\n"
    await again.aclose()
    with pytest.raises(AnyshellError, match="closed"):
        await again.run("echo no")
    assert bash.session("agent") is not session


async def test_a_named_session_that_nobody_uses_is_ended_and_that_is_said(
    bash: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "IDLE_SECONDS", 0.01)
    session = bash.session("idle")
    pid = int((await session.run("A=1; echo $$")).output.text)
    async with asyncio.timeout(20):
        while psutil.pid_exists(pid):
            await asyncio.sleep(0.01)
    outcome = await session.run('echo "${A-gone}"')
    assert outcome.session is not None
    assert outcome.output.text == "gone\n"
    assert "idle" in outcome.session.fresh


async def test_restart_and_close_stop_what_runs(local: Environment) -> None:
    seconds = unique_seconds()
    async with local.session() as session:
        await printed(session, "A=1")
        for close in (session.restart, session.aclose):
            running = asyncio.create_task(session.run(f"sleep {seconds}; touch X"))
            await asyncio.to_thread(wait_asleep, seconds)
            await close()
            assert (await running).status == "cancelled"
            assert not living(f"sleep {seconds}")
            if close == session.restart:
                outcome = await session.run('echo "${A-gone}"')
                assert outcome.session is not None
                assert (outcome.output.text, outcome.session.fresh) == ("gone\n", "the session was restarted")
        with pytest.raises(AnyshellError, match="closed"):
            await session.run("echo no")


async def test_an_exit_trap_runs_when_a_session_is_closed_and_what_it_starts_is_stopped(
    local: Environment, tmp_path: Path
) -> None:
    seconds = unique_seconds()
    async with local.session() as session:
        await printed(session, f"trap 'touch trapped; sleep {seconds} &' EXIT")
    assert (tmp_path / "trapped").exists()
    assert not living(f"sleep {seconds}")


# --- Nothing stays


@pytest.mark.parametrize("shell", SHELLS)
async def test_leaving_the_environment_leaves_nothing(shell: str, tmp_path: Path, private: Path) -> None:
    seconds = unique_seconds()
    path = shell_path(shell, tmp_path)

    async def live() -> None:
        async with Environment.detect(shell=path, cwd=tmp_path) as env:
            sessions = [env.session() for _ in range(3)]
            await asyncio.gather(*(each.run("A=1; cat", stdin=b"x", split_stderr=True) for each in sessions))
            (used,) = {entry.stat().st_mode & 0o777 for entry in private.iterdir()}
            assert used == 0o700
            assert {file.lstat().st_mode & 0o077 for file in private.rglob("*/*")} == {0}
            sleeping = asyncio.create_task(sessions[0].run(f"sleep {seconds}"))
            await asyncio.to_thread(wait_asleep, seconds)
        assert (await sleeping).status == "cancelled"

    await live()  # what is opened once and for all is open after this
    gc.collect()
    before = open_descriptors(), len(asyncio.all_tasks()), len(psutil.Process().children())
    await live()
    gc.collect()
    assert (open_descriptors(), len(asyncio.all_tasks()), len(psutil.Process().children())) == before
    assert not living(f"sleep {seconds}")
    assert list(private.iterdir()) == []


async def test_ten_thousand_commands_leave_nothing_that_grows(bash: Environment) -> None:
    async with bash.session() as session:

        async def run(count: int) -> tuple[int, ...]:
            for number in range(count):
                outcome = await session.run("A=$((A+1)); echo $A")
                assert outcome.exit_code == 0, number
            pid = int((await session.run("echo $$")).output.text)
            gc.collect()
            shell = psutil.Process(pid)
            files = len(list(Path(f"/proc/{pid}/fd").iterdir())) if Path("/proc").is_dir() else 0
            return (open_descriptors(), files, shell.memory_info().rss, len(gc.get_objects()))

        before = await run(1_000)
        after = await run(9_000)
        assert (await session.run("echo $A")).output.text == "10000\n"
        assert after[:2] == before[:2]
        assert after[2] - before[2] < 1_000_000
        assert after[3] - before[3] < 2_000


async def test_two_hundred_sessions_live_at_once(bash: Environment) -> None:
    sessions = [bash.session(env={"N": str(number)}) for number in range(200)]
    await asyncio.gather(*(each.run("A=$N") for each in sessions))
    outcomes = await asyncio.gather(*(each.run("echo $A") for each in sessions))
    assert [outcome.output.text for outcome in outcomes] == [f"{number}\n" for number in range(200)]


async def test_twenty_sessions_live_at_once_over_ssh(ssh_host: Callable[[str], Server]) -> None:
    async with Environment.detect(ssh_host("openssh as a user").options(), shell="bash") as env:
        sessions = [env.session(env={"N": str(number)}) for number in range(20)]
        await asyncio.gather(*(each.run("A=$N") for each in sessions))
        outcomes = await asyncio.gather(*(each.run("echo $A") for each in sessions))
        assert [outcome.output.text for outcome in outcomes] == [f"{number}\n" for number in range(20)]


# --- Line by line, or all at once

NAMES = st.sampled_from("ABC")
VALUES = st.sampled_from(["1", "'two words'", '"$A$B"', "$((C+1))", "'q\"uote'", "''", "*", "$?"])
LINES = st.one_of(
    st.builds("{}={}".format, NAMES, VALUES),
    st.builds("export {}={}".format, NAMES, VALUES),
    st.builds("unset {}".format, NAMES),
    st.builds("mkdir -p d{0}; cd d{0}".format, NAMES),
    st.sampled_from(["cd ..", "cd -", "cd /usr", "pwd", "true", "false", "(exit 3)", "echo $? $A $B $C"]),
    st.builds("f() {{ echo f $1 {}; return 2; }}".format, VALUES),
    st.sampled_from(["f x", "f y | cat", "unset -f f", "x=$(f z); echo $?", "f || echo or", "! f"]),
    st.builds("alias {}='echo alias'".format, st.sampled_from(["say", "f"])),
    st.sampled_from(["say x", "unalias say", "unalias -a", 'eval "A=3; false"', "set -- $A $B; echo $#"]),
    st.builds("set {}".format, st.sampled_from(["-f", "+f", "-o pipefail", "+o pipefail", "-a", "+a", "-C"])),
    st.builds("shopt {} nullglob".format, st.sampled_from(["-s", "-u"])),
    st.builds("umask {}".format, st.sampled_from(["022", "077", "002"])),
    st.builds("trap {} USR1".format, st.sampled_from(["'echo usr'", "-", "''"])),
    st.sampled_from(["kill -s USR1 $BASHPID 2>/dev/null || :", "exec 2>&1", "exec 4>&1; echo four >&4"]),
    st.builds("cat <<END\n{}\nEND".format, VALUES),
    st.builds("for i in 1 2; do {}=$i; done; echo $i".format, NAMES),
    st.sampled_from(["read A <<<given", "a=(1 2 $A); echo ${#a[@]}", "a+=(x)", "declare -i C=5", "C=C+1"]),
)
STATE = "echo $?; pwd; umask; alias; declare -f f; set +o; shopt; trap -p USR1; declare -p A B C a 2>&1 | sed 's/.*: //'"


@given(st.lists(LINES, min_size=1, max_size=12))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
def test_lines_one_by_one_do_what_they_do_in_one_script(lines: list[str]) -> None:
    lines = [line for line in lines if "USR1 $BASHPID" not in line or "trap 'echo usr' USR1" in lines[:1]]

    async def both() -> None:
        with tempfile.TemporaryDirectory() as alone, tempfile.TemporaryDirectory() as whole:
            async with Environment.detect(shell="bash") as env, env.session(cwd=alone) as session:
                by_line = ""
                for line in [*lines, STATE]:
                    outcome = await session.run(line)
                    assert outcome.session is not None
                    assert outcome.session.state == "kept"
                    by_line += outcome.output.text
                script = "\n".join(["shopt -s expand_aliases", *lines, STATE])
                at_once = (await env.run(script, cwd=whole)).output.text
            assert named(by_line, alone) == named(at_once, whole)

    asyncio.run(both())


def named(text: str, directory: str) -> str:
    """A text without what differs from run to run: where it was, and what bash puts before its own messages."""
    text = text.replace(os.path.realpath(directory), "DIRECTORY")
    return "\n".join(line.partition(": line ")[2].partition(": ")[2] or line for line in text.splitlines())


async def test_a_command_that_counts_on_its_shell_is_not_run_in_a_fresh_one(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env, env.session() as session:
        assert (session.alive, session.directory) == (False, str(tmp_path))
        await session.run("cd /; A=1")
        assert (session.alive, session.directory) == (True, "/")
        assert (await session.run("echo $A", may_be_fresh=False)).output.text == "1\n"
        await session.run("exit")
        assert (session.alive, session.directory) == (False, str(tmp_path))
        with pytest.raises(AnyshellError, match="not to run in a fresh one"):
            await session.run("touch ran", may_be_fresh=False)
        assert (await session.run("ls")).output.text == ""
        await session.run("cd /")
        await session.restart()
        assert (session.alive, session.directory) == (False, str(tmp_path))


# --- What attacks have found


async def test_a_stop_by_ssh_never_meets_the_next_command(far: Environment) -> None:
    async with far.session() as session:
        await printed(session, "A=5")
        for moment in range(12):
            stopped = asyncio.create_task(session.run("sleep 0.1", timeout=0.092 + moment * 0.002, grace=5))
            await asyncio.sleep(0)
            following = await session.run("echo a; sleep 0.05; echo b $A", timeout=20)
            assert (await stopped).status in ("exited", "timed_out")
            assert (following.status, following.output.text) == ("exited", "a\nb 5\n")


async def test_a_command_that_is_given_up_while_it_is_brought_leaves_its_session(far: Environment) -> None:
    async with far.session() as session:
        await printed(session, "A=5")
        for text, stdin in ((f"sleep 1 # {'x' * 50_000}", None), ("cat; sleep 1", b"x")):
            outcome = await session.run(text, stdin=stdin, timeout=0.003)
            assert outcome.status == "timed_out"
            assert await printed(session, "echo $A") == "5\n"


@pytest.mark.parametrize("keep", [False, True])
async def test_what_has_closed_all_that_it_inherits_is_left_behind_all_the_same(
    env: Environment, keep: bool
) -> None:
    seconds = unique_seconds()
    async with env.session() as session:
        await printed(session, "true")
        quiet = f"(exec sleep {seconds} 197>&- 9>&- >/dev/null 2>&1 </dev/null) &"
        outcome = await session.run(quiet, left_behind=None if keep else "stop")
        assert [process.name for process in outcome.left_behind] == ["sleep"]
        assert bool(living(seconds)) == keep
        assert (outcome.job is not None) == keep
    assert not keep or living(seconds)  # it is the environment's now
    await asyncio.gather(*(job.stop() for job in env.jobs.list()))
    assert not living(seconds)


async def test_a_prefix_into_other_pids_is_refused(tmp_path: Path) -> None:
    if not is_root():
        pytest.skip("only root makes a pid namespace without a user namespace")
    async with Environment.detect(cwd=tmp_path, prefix="unshare --pid --fork") as env:
        assert (await env.run("echo $$")).output.text == "1\n"
        async with env.session() as session:
            with pytest.raises(SpawnError, match="other numbers"):
                await session.run("true", timeout=20)


async def test_what_is_said_before_the_shell_is_there_is_passed_over(tmp_path: Path) -> None:
    warns = tmp_path / "warns"
    warns.write_text('#!/bin/sh\necho "cannot do that" >&2\nexec "$@"\n')
    warns.chmod(0o755)
    async with Environment.detect(cwd=tmp_path, prefix=str(warns)) as env, env.session() as session:
        assert await printed(session, "echo hi") == "hi\n"
    async with (
        Environment.detect(cwd=tmp_path) as env,
        env.session(env={"LC_ALL": "xx_YY.UTF-8"}) as session,
    ):
        outcome = await session.run("cat; export Q=1", cwd="/", stdin="hi", variables=True, timeout=20)
        assert (outcome.output.text, reported(outcome).variables) == ("hi", {"Q": "1"})


async def test_the_variables_are_those_of_the_command_that_asked(local: Environment) -> None:
    async with local.session() as session:
        first, second = await asyncio.gather(
            session.run("export A=1; sleep 30 &", variables=True, left_behind="stop"),
            session.run("export B=2", variables=True),
        )
        assert (reported(first).variables, reported(second).variables) == ({"A": "1"}, {"B": "2"})


async def test_whoever_comes_first_in_a_fresh_shell_is_told(local: Environment) -> None:
    async with local.session() as session:
        await session.run("x=1; trap 'sleep 0.3' EXIT")
        restarting = asyncio.create_task(session.restart())
        await asyncio.sleep(0.05)
        assert reported(await session.run("true")).fresh == "the session was restarted"
        await restarting
        assert reported(await session.run("true")).fresh == ""
        await session.run("exit 1")
        given_up = asyncio.create_task(session.run("sleep 30"))
        await asyncio.sleep(0.2)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert "the command before" in reported(await session.run("true")).fresh


async def test_a_directory_is_relative_to_where_the_shell_is_by_then(
    local: Environment, tmp_path: Path
) -> None:
    (tmp_path / "here" / "sub").mkdir(parents=True)
    async with local.session() as session:
        _, outcome = await asyncio.gather(session.run("sleep 0.1; cd here"), session.run("pwd", cwd="sub"))
        assert outcome.output.text == f"{tmp_path}/here/sub\n"
        await session.restart()
        assert session.directory == str(tmp_path)


async def test_an_exit_code_has_eight_bits(local: Environment) -> None:
    async with local.session() as session:
        assert (await session.run("f() { return 300; }; f; exit 300")).exit_code == 44


async def test_a_session_that_is_closed_twice_forgets_no_other(local: Environment) -> None:
    first = local.session("name")
    await first.aclose()
    second = local.session("name")
    await first.aclose()
    assert local.session("name") is second
    with pytest.raises(InvalidCommand, match="ANYSHELL_SET"):
        await second.run("true", env={"ANYSHELL_SET": "1"})
    ended = await second.run("sleep 30 & exit 3", left_behind="stop")
    assert (ended.exit_code, reported(ended).state) == (3, "ended")


async def test_a_shell_that_is_stopped_does_not_begin_after_the_time_is_over(env: Environment) -> None:
    async with env.session() as session:
        for cwd in (None, "."):
            await session.run("A=5; (sleep 0.1; kill -STOP $$) & :", left_behind="keep", timeout=20)
            await asyncio.sleep(0.3)
            outcome = await session.run("touch ran", cwd=cwd, timeout=0.3)
            assert outcome.status == "timed_out"
            assert not await env.files.exists(f"{env.directory}/ran")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_a_status_is_not_taken_from_a_variable_that_stands(shell: str, tmp_path: Path) -> None:
    async with Environment.detect(shell=shell, cwd=tmp_path) as env, env.session() as session:
        outcomes = [
            await session.run(text, timeout=20) for text in ("readonly ANYSHELL_STATUS=0", "false", "false")
        ]
        assert reported(outcomes[0]).state != "kept" or reported(outcomes[1]).state != "kept"
        assert outcomes[2].exit_code == 1


async def test_the_directory_is_where_the_shell_is_also_when_it_has_another_name(local: Environment) -> None:
    async with local.session() as session:
        outcome = await session.run("mkdir d; cd d; mv ../d ../e; mkdir ../d")
        assert reported(outcome).directory == f"{local.directory}/e"
        assert await printed(session, "env pwd -P") == f"{local.directory}/e\n"


async def test_a_job_outlives_the_shell_that_started_it_however_that_ends(env: Environment) -> None:
    seconds = unique_seconds()
    async with env.session() as session:
        outcome = await session.run(f"sleep {seconds} & echo $$", timeout=20)
        # Blocking, so that nobody here has noticed when the next command comes. By SSH it may be sent to nobody.
        psutil.Process(int(outcome.output.text)).kill()
        time.sleep(0.05)
        lost = await session.run("echo lost", timeout=20)
        assert lost.output.text == "lost\n" or reported(lost).state == "ended"
        assert (await session.run("echo again", timeout=20)).output.text == "again\n"
        assert outcome.job is not None
        assert env.jobs.get(outcome.job).status == "running"
    assert living(f"sleep {seconds}")
    await env.jobs.get(outcome.job).stop()
    assert not living(f"sleep {seconds}")


async def test_a_shell_that_ends_at_once_is_said(tmp_path: Path) -> None:
    shell = tmp_path / "bash"
    shell.write_text('#!/bin/bash\ncase " $* " in *" -s "*) exit 0;; esac\nexec /bin/bash "$@"\n')
    shell.chmod(0o755)
    async with Environment.detect(shell=str(shell), cwd=tmp_path) as env, env.session() as session:
        said: list[str] = []
        for _ in range(3):
            try:
                said.append(reported(await session.run("echo hi", timeout=20)).state)
            except SpawnError as error:
                said.append(str(error))
        # It may have been given the command before anybody noticed.
        assert all(each == "ended" or "ends as soon as" in each for each in said), said


async def test_what_a_text_says_in_the_shells_name_changes_nothing(tmp_path: Path) -> None:
    """The stream by which the shell is heard can be written to by way of /proc, by whoever wants to break his session."""
    async with Environment.detect(shell="bash", cwd=tmp_path) as env, env.session() as session:
        await printed(session, "A=5")
        forged = r"for word in 'shell 1' 'shell x' back 'back' 'ended 0 0 ' 'begun 1'; do printf '\0%s\0' \"$word\"; done"
        await session.run(f"{{ {forged}; }} >/proc/$$/fd/199 2>/dev/null; sleep 0.05; false", timeout=20)
        assert (await session.run("(exit 3)", timeout=20)).exit_code == 3
        assert await printed(session, "echo $A") == "5\n"
