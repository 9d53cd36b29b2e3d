"""Forks of a session: the copied state, and the independence of fork and session from then on."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
import pytest

from anyshell import AnyshellError, Environment, InvalidCommand, Reach, SSHOptions
from anyshell._environment import dialogs
from anyshell.errors import SpawnError

from .conftest import bubblewrap, open_to_all, row

assert sys.platform != "win32"  # else mypy checks the code below on every platform

from .processes import living, unique_seconds, wait_none
from .ssh_server import directories, wait_removed
from .test_session import printed, wait_for
from .test_session_texts import shell_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell import Session

    from .ssh_server import Server

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["local bash", "local zsh", "far bash", "far zsh", "confined bash"])
async def env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    place, shell = request.param.split()
    host = ssh_host("openssh as a user").options() if place == "far" else "local"
    reach = None
    if place == "confined":
        bubblewrap()
        reach = Reach.preset("workspace")
    open_to_all(tmp_path)
    user = host.user if isinstance(host, SSHOptions) else None
    before = directories(user) if user is not None else set()
    async with Environment.detect(host, shell=shell_path(shell, tmp_path), cwd=tmp_path, reach=reach) as made:
        yield made
    if user is not None:
        await wait_removed(user, before)


@pytest.fixture(params=["bash", "zsh"])
async def local(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    async with Environment.detect(shell=shell_path(request.param, tmp_path), cwd=tmp_path) as made:
        yield made


SET_UP = {
    "bash": """
a=$'x\\ny\\'z "q" $b `c` \\\\'; export b='2 3'; declare -a arr=(1 'b c' [7]=$'\\t'); declare -A map=([k]='v w' ['x y']=z)
declare -i n=4; declare -n ref=b; readonly ro=1; declare -u up=abc; declare -a declared; export -n HOME
shopt -s nullglob extglob; shopt -u sourcepath
f() { echo "f $1"; }; declare -fx f; case_of() { case $1 in +(a|b)) echo ab;; *) echo other;; esac; }
alias ll='ls -l' 'x=echo "it'\\''s"'
set -o pipefail -u; trap 'echo "I $b"' INT; trap : EXIT; trap 'seen=1' DEBUG; trap 'failed=1' ERR
""",
    "zsh": """
a=$'x\\ny\\'z "q" $b `c` \\\\'; export b='2 3'; typeset -a arr=(1 'b c' $'\\t'); typeset -A map=(k 'v w' 'x y' z)
typeset -i n=4; typeset -r ro=1; typeset -F fl=1.5; typeset -T TIED tied; tied=(a b); path+=(/extra); typeset -U path
f() { echo "f $1" }; 'odd name'() { echo odd }; typeset +x HOME
alias ll='ls -l'; alias -g PIPED='| cat'; alias -s txt=cat; hash -d proj=/usr/lib
setopt extended_glob null_glob no_unset pipe_fail; trap 'echo "I $b"' INT; trap : EXIT; TRAPUSR1() { echo u1 }
trap 'seen=1' DEBUG
""",
}
SET_UP_BOTH = (
    "umask 027; mkdir -p d/e; cd d; pushd e >/dev/null; unset LANG; ulimit -S -n 512; set -- p 'q r'"
)
LOOK = {
    "bash": "declare -p | grep -Ev '^declare [-a-zA-Z]+ (ANYSHELL|BASH|EPOCH|LINENO|RANDOM|SECONDS|SRANDOM|PPID|PIPESTATUS|FUNCNAME|_=)'; "
    "declare -f; declare -F; alias; shopt; set +o; trap",
    "zsh": "typeset -p | grep -Ev '^(typeset|export) (-[-a-zA-Z0-9]+ )*(ANYSHELL|EPOCH|LINENO|RANDOM|SECONDS|PPID|TTYIDLE|status|pipestatus|dirstack|0=|_=)'; "
    "functions; alias; alias -g; alias -s; setopt; unsetopt; trap; hash -d; echo ~proj",
}
LOOK_BOTH = 'umask; pwd; dirs; echo "$# $1 $2"; ulimit -S -n; env | sort | grep -v ANYSHELL_; printf "%s|" "$a" "$b" "${arr[@]}"'


async def looked(session: Session) -> list[str]:
    """The state of a session's shell, line by line, except the place of its private directory."""
    said = await printed(session, f"{LOOK[session.shell.kind]}; {LOOK_BOTH}")
    return re.sub(r"/anyshell-\w+", "", said).splitlines()


async def test_fork_copies_the_state_of_its_session(env: Environment) -> None:
    kind = env.shell.kind
    async with env.session() as session:
        await session.run("true")
        before = await looked(session)
        await printed(session, SET_UP[kind])
        await printed(session, SET_UP_BOTH)
        wanted = await looked(session)
        for said in (
            "f ()",
            "ll='ls -l'",
            "it'\\''s" if kind == "bash" else "PIPED",
            "027",
            "p q r",
            "b c",
            "trap -- 'echo \"I",
        ):
            assert said in "\n".join(wanted)
            assert said not in "\n".join(before)
        async with await session.fork() as fork:
            assert fork.directory == session.directory
            assert await looked(fork) == wanted
            assert await printed(fork, "f 1; ll -d . >/dev/null; echo $n $ro ${map[k]}") == "f 1\n4 1 v w\n"
            if kind == "bash":
                await printed(fork, "unset seen")
                assert await printed(fork, "echo $seen") == "1\n"
                assert await printed(fork, "case_of ab; x; ref=5; echo $b") == "ab\nit's\n5\n"
            async with await fork.fork() as second:
                b = (await printed(fork, 'printf %s "$b"')).rstrip()
                said = await printed(second, "echo $b; kill -INT $$; :")
                assert said.splitlines() == [b, f"I {b}"]
            # The session is unchanged.
            assert await looked(session) == wanted


async def test_fork_and_session_change_independently(env: Environment) -> None:
    async with env.session() as session:
        await printed(session, "way=none; mkdir -p one two; f() { echo old; }")
        await session.run("exit_code() { return $1; }; exit_code 7")
        async with await session.fork() as fork:
            assert (await fork.run("echo $?")).output.text == "7\n"
            assert (await session.run("echo $?")).output.text == "7\n"
            await printed(session, "way=one; cd one; f() { echo one; }; umask 077; echo 1 > ../both")
            await printed(fork, "way=two; cd two; f() { echo two; }; export OWN=1")
            look = "echo $way $(basename $PWD) $(f) $(umask) ${OWN-none} $(cat ../both)"
            assert (await printed(session, look)).split()[:3] == ["one", "one", "one"]
            assert (await printed(fork, look)).split()[:3] == ["two", "two", "two"]
            assert (await printed(session, look)).split()[4:] == ["none", "1"]
            assert (await printed(fork, look)).split()[4:] == ["1", "1"]
            # Neither the end of one nor a stop affects the other.
            slow = await fork.run("sleep 60", timeout=0.3)
            assert slow.status == "timed_out"
            assert (await fork.run("exit 4")).exit_code == 4
            assert await printed(session, "echo $way") == "one\n"


TRICKY = {
    "options that end a shell": "set -e -u",
    "no overwriting": "set -C",
    "another IFS": "IFS=:0n",
    "no globbing": "set -f",
    "functions with names of builtins": "cd() { :; }; printf() { :; }; echo_() { :; }; read() { :; }; set() { :; }; test() { :; }; trap() { :; }; unset() { :; }; alias() { :; }",
    "a builtin that is a function": "builtin() { :; }",
    "aliases of reserved words": "alias for='echo no' while=true case=: printf=: trap=: '.'=:",
    "a wrong PWD": "PWD=nowhere",
    "everything exported": "set -a; q='a b'",
    "a value with a declaration": "q=$'declare -x PATH=\"\"\\nexport PATH=x'",
    "a file descriptor": "exec 3</dev/null",
    "no PATH": "unset PATH",
    "no HOME": "unset HOME; cd /",
    "a name with a blank": "mkdir -p 'a b' $'c\\nd'; cd 'a b'; cd ../$'c\\nd'",
}
TRICKY_BASH = {
    "a trace": "set -x",
    "posix": "set -o posix",
    "functions with names of declarations": "declare() { :; }; typeset() { :; }; export() { :; }; shopt() { :; }; eval() { :; }; pushd() { :; }",
    "names of any case": "shopt -s nocasematch",
    "a tracing debug trap": "set -T; trap 'echo D' DEBUG",
}
TRICKY_ZSH = {
    "arrays of ksh": "setopt ksh_arrays sh_word_split",
    "another emulation": "emulate ksh",
    "global aliases": "alias -g 'printf=echo' 'for=x' '|=y' 'setopt=unsetopt' 'print=:'",
    "quotes": "setopt rc_quotes; q='it''s'",
    "a return at errors": "setopt err_return",
    "a debug function": "TRAPDEBUG() { echo D }",
}


async def test_session_in_any_state_can_be_forked(local: Environment) -> None:
    more = TRICKY_BASH if local.shell.kind == "bash" else TRICKY_ZSH
    for name, text in {**TRICKY, **more}.items():
        with row(name):
            async with local.session() as session:
                await session.run("kept='k k'; g() { \\builtin echo got; }")
                assert (await session.run(text)).session is not None
                said = await session.run(
                    '\\builtin echo "$kept" "${q-}"; g; \\builtin echo "$-"; \\builtin pwd'
                )
                async with await session.fork() as fork:
                    same = await fork.run(
                        '\\builtin echo "$kept" "${q-}"; g; \\builtin echo "$-"; \\builtin pwd'
                    )
                    assert (same.exit_code, same.output.text) == (said.exit_code, said.output.text)
                    assert "k k" in same.output.text
                assert session.alive


async def test_a_fork_waits_for_its_turn_and_outlives_its_session(local: Environment, tmp_path: Path) -> None:
    session = local.session()
    begun = asyncio.create_task(session.run(f"touch {tmp_path}/begun; sleep 0.3; late=1"))
    await wait_for(tmp_path / "begun")
    forks = await asyncio.gather(*(session.fork() for _ in range(4)))
    await begun
    await session.aclose()
    for fork in forks:
        assert await printed(fork, "echo $late") == "1\n"
        await fork.aclose()
    with pytest.raises(AnyshellError, match="closed"):
        await session.fork()


async def test_a_fork_that_waits_too_long_leaves_nothing(local: Environment, tmp_path: Path) -> None:
    async with local.session() as session:
        running = asyncio.create_task(session.run(f"touch {tmp_path}/begun; sleep 1; late=1"))
        await wait_for(tmp_path / "begun")
        with pytest.raises(AnyshellError, match="timeout"):
            await session.fork(timeout=timedelta(seconds=0.2))
        with pytest.raises(InvalidCommand, match="timeout"):
            await session.fork(timeout=-1)
        assert (await running).status == "exited"
        assert await printed(session, "echo $late") == "1\n"


async def test_closed_environment_leaves_nothing_of_a_fork(tmp_path: Path, anyio_backend: str) -> None:
    seconds = unique_seconds()
    async with Environment.detect(shell="bash", cwd=tmp_path) as env:
        session = env.session()
        await session.run(f"f() {{ sleep {seconds}; }}")
        fork = await session.fork()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fork.run, f"touch {shlex.quote(str(tmp_path))}/begun; f")
            await wait_for(tmp_path / "begun")
            await env.aclose()
    await wait_none(seconds)
    assert not living(seconds)
    with pytest.raises(AnyshellError):
        await fork.run("echo never")


async def test_refused_fork_names_the_reason(
    local: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Environment.detect(shell="sh", cwd=tmp_path) as env, env.session() as session:
        with pytest.raises(InvalidCommand, match="take shell='bash' or shell='zsh'"):
            await session.fork()
    monkeypatch.setattr(dialogs, "MAX_FORKS", 2)
    async with local.session() as session:
        first, second = await session.fork(), await session.fork()
        with pytest.raises(InvalidCommand, match="2 forks"):
            await session.fork()
        await first.aclose()
        await (await second.fork()).aclose()
        await printed(session, "mkdir gone; cd gone; rmdir ../gone")
        with pytest.raises(SpawnError, match="gone"):
            await session.fork()
        await second.aclose()
        await printed(session, "cd ..")
        await (await session.fork()).aclose()
