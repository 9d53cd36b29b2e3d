"""The list in ``docs/explanation/what-a-session-survives.md``: each of its lines is tried."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anyshell import Environment
from anyshell.abc import ShellInfo
from anyshell.shells import converse
from anyshell.shells.frame import Frame
from anyshell.shells.session import Conversation

from .conftest import missing

if TYPE_CHECKING:
    from anyshell import Session
    from anyshell._types import ShellKind

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "what-a-session-survives.md"

SHELLS = ["bash", "zsh", "dash", "busybox"]


def shell_path(name: str, directory: Path) -> str:
    """The path of a shell; busybox is linked by the name ash."""
    path = shutil.which(name)
    if path is None:
        missing(name, f"apt-get install {name}")
    if name != "busybox":
        return path
    (directory / "ash").symlink_to(path)
    return str(directory / "ash")


@dataclass(frozen=True)
class Line:
    """A line of the list.

    The fate of the session, for each shell: ``kept``; ``ended``, which the outcome reports; ``lost``,
    which the outcome reports after its timeout; ``-`` for a shell without the feature.
    """

    texts: tuple[str, ...]
    bash: str = "kept"
    zsh: str = "kept"
    sh: str = "kept"

    def on(self, shell: str) -> str:
        usual, _, differs = {"bash": self.bash, "zsh": self.zsh}.get(shell, self.sh).partition(f"; {shell}: ")
        return differs or usual.partition(";")[0]


def line(*texts: str, bash: str = "kept", zsh: str = "kept", sh: str = "kept") -> Line:
    return Line(texts, bash, zsh, sh)


def every(fate: str, *texts: str) -> Line:
    return Line(texts, fate, fate, fate)


WORDS = [
    "echo",
    "printf",
    "cd",
    "pwd",
    "eval",
    "source",
    "builtin",
    "command",
    "unset",
    "export",
    "trap",
    "return",
    "test",
    "kill",
    "read",
    "exec",
    "ulimit",
    "shopt",
    "set",
    "exit",
    "unalias",
    "alias",
    "local",
    "env",
    "true",
    "shift",
    "wait",
    "type",
]

LINES = {
    "prints bytes of any kind, ours among them": line(
        r"printf '\0ended 1 0 \n/\n\0\377\000ended 2 0 i\n/\n\0'"
    ),
    "prints no line feed at its end": line("printf abc"),
    "`exec >file`": line("exec >file; echo hidden"),
    "`exec 2>&1`": line("exec 2>&1"),
    "`exec <file`": line("echo content >file; exec <file"),
    "`exec 3>file 7>&1`": line("exec 3>file 7>&1"),
    "closes its output: `exec >&- 2>&-`": line("exec >&- 2>&-; echo nowhere"),
    "closes its input: `exec <&-`": line("exec <&-"),
    "reads all its input": line("cat; read x || :; cat"),
    "changes `PS1 PS4 IFS PATH`": line("PS1='$(echo ps1)' PS4=no IFS=0123456789aeiou/ PATH=/nowhere"),
    "removes `IFS PATH HOME PWD OLDPWD`": line("unset IFS PATH HOME PWD OLDPWD"),
    "`set -x`, `set -v`": line("set -xv; :"),
    "`BASH_XTRACEFD=1`": line("BASH_XTRACEFD=1; set -x", zsh="-", sh="-"),
    "a DEBUG trap that prints": line("trap 'echo debug' DEBUG", sh="-"),
    "a DEBUG trap with `set -T`": line("set -T; trap 'echo debug; false' DEBUG", zsh="-", sh="-"),
    "`TRAPDEBUG() { … }`": line("TRAPDEBUG() { echo debug }", bash="-", sh="-"),
    "ERR and CHLD traps": line("trap 'echo failed' ERR; trap 'echo child' CHLD; false", sh="-"),
    "a RETURN trap": line("trap 'echo returned' RETURN", zsh="-", sh="-"),
    "EXIT, INT, TERM and HUP traps": line("trap 'echo over' EXIT; trap 'echo signal' INT TERM HUP"),
    "a quote, a double quote or a backquote that is never closed": line(
        "echo 'never", 'echo "never', "echo `never"
    ),
    "a here-document that is never closed": line("cat <<END\nnever\n"),
    "`$(` that is never closed": line(
        "echo $(never", "x=$(", 'echo "$(echo $(never"', "cat <<END\n$(never\nEND", bash="kept or ended"
    ),
    "braces that do not match": line("{ echo", "echo; }", "( echo", "if true; then"),
    "a text that begins with `}` or `)`": line("} ; echo", ") ; echo", "fi", "done", ";;"),
    "a syntax error": line("echo begun; for for in for; do", "case x in", "|| &&"),
    "a comment, nothing, line feeds, a backslash at the end": line(
        "# comment", "", "\n\n\n", "echo a\\", "echo a # b\\"
    ),
    "`return`, `break`, `continue` outside of everything": line("return 3", "break; echo", "continue; echo"),
    "a function with the name of a builtin": line(*(f"{word}() {{ /bin/echo fake; }}" for word in WORDS)),
    "an alias with the name of a builtin": line(
        *(f"alias {word}='/bin/echo fake'" for word in WORDS), "alias '['=/bin/false test=/bin/false"
    ),
    "an alias with the name of a reserved word": line(
        *(f"alias '{word}'='/bin/echo fake'" for word in ("if", "case", "{", "}", "!", "[[", "then", "esac"))
    ),
    "a global alias with the name of what we use": line(
        "alias -g .=x 8=x '>'=x builtin=x",
        "alias -g '\\builtin'=x",
        "alias '\\builtin'=x '\\.'=x '\\8'=x",
        "alias -g printf=x '(('=x '||'=x ';'=x '}'=x",
        bash="-",
        sh="-",
    ),
    "a text of 4 MB": line(": " + "x" * 4_000_000),
    "`set -a`, `set -C`, `set -f`": line("set -aCf"),
    "`set -m`, `set -b`, `set -h`": line("set -m; set -b; set -h", zsh="-", sh="-"),
    "`set -o posix`, `POSIXLY_CORRECT=1`": line("set -o posix", "POSIXLY_CORRECT=1", zsh="-", sh="-"),
    "`shopt -s nullglob failglob extdebug`": line("shopt -s nullglob failglob extdebug", zsh="-", sh="-"),
    "`emulate sh`, `emulate csh`": line("emulate sh", "emulate csh", bash="-", sh="-"),
    "assigns to a readonly variable": line("readonly B=1; readonly B; B=2"),
    "`readonly IFS`": line("readonly IFS", "IFS=0123456789; readonly IFS"),
    "a failure under `setopt err_return`": line(
        "setopt err_return; false", "setopt err_return; f() { false; echo }; f", bash="-", sh="-"
    ),
    "`enable -n .`, `disable .`, `disable printf`": line(
        "enable -n . || disable .", "enable -n printf || disable printf", sh="-"
    ),
    "`disable -r` of `case`, `if`, `[[`, `{` or `}`": line(
        "disable -r case",
        "disable -r if",
        "disable -r '[['",
        "disable -r {",
        "disable -r }",
        bash="-",
        sh="-",
    ),
    "`FUNCNEST=0`": line("FUNCNEST=0", sh="-"),
    "`unset -f` of what is not a function, `unalias -a`": line("unset -f nothing; unalias -a"),
    "`ulimit -n 64`": line("ulimit -n 64", bash="ended"),
    "`wait`, with processes of its own": line("/bin/true & wait; /bin/false & wait"),
    "leaves a process behind": line("sleep 60 &"),
    "removes the directory that it is in": line('mkdir gone; cd gone; rmdir "$PWD"'),
    "errors that end a script of `sh`": line(
        "shift 100", "${a b c}", ". /no/such/file", "exec >/no/such/file", "echo $((1/0))"
    ),
    "errors that bash answers by going back to its input": line(
        "m=09; echo ${days[$m]}",
        "a[1/0]=5",
        "declare -i n=1/0",
        "shift 1 2",
        "exit 1 2",
        "[[ a",
        zsh="-",
        sh="-",
    ),
    "errors in a subshell, a substitution or a pipe": line(
        "(. ./missing)", "x=$(echo $((1/0)))", ": ${x:?} | cat", "(readonly a=1; a=2)", ": ${x:?} & wait"
    ),
    "`kill -s VTALRM $$`": line("kill -s VTALRM $$; echo"),
    "`trap '' VTALRM`": line("trap '' VTALRM"),
    "`exit`, `exec program`": every("ended", "exit 7", "exec /bin/true", "exec /no/such/program"),
    "`kill -9 $$`": every("ended", "kill -9 $$"),
    "a failure under `set -e`": every("ended", "set -e; false; echo no"),
    "an unset variable under `set -u`": line('set -u; echo "$nothing"', bash="ended"),
    "`${x:?}`": line("echo ${nothing:?}", bash="ended", zsh="ended"),
    "makes variables of anyshell readonly": every("ended", "readonly ANYSHELL_STATUS"),
    "`set -t`": line("set -t", bash="ended", zsh="-", sh="-"),
    "`set -r`": line("set -r", bash="ended", zsh="-", sh="-"),
    "`enable -n builtin`, `disable builtin`": line(
        "enable -n builtin || disable builtin", bash="ended", zsh="ended", sh="-"
    ),
    "functions for all of `builtin command unset printf` at once": line(
        "builtin() { :; }; command() { :; }; unset() { :; }; printf() { :; }", bash="ended", zsh="-", sh="-"
    ),
    "`ulimit -n 3`": Line(("ulimit -n 3",), "ended", "ended", "ended; busybox: lost"),
    "`set -n`": every("lost", "set -n"),
    "a DEBUG trap that fails, with `shopt -s extdebug`": line(
        "shopt -s extdebug; trap false DEBUG", bash="lost", zsh="-", sh="-"
    ),
}


@pytest.mark.parametrize(
    ("name", "shell"),
    [(name, shell) for name, listed in LINES.items() for shell in SHELLS if listed.on(shell) != "-"],
)
async def test_listed_texts_affect_a_session_as_documented(name: str, shell: str, tmp_path: Path) -> None:
    fate = LINES[name].on(shell)
    async with Environment.detect(shell=shell_path(shell, tmp_path), cwd=tmp_path) as env:
        for text in LINES[name].texts:
            async with env.session() as session:
                await check(session, text, fate)


async def check(session: Session, text: str, fate: str) -> None:
    await session.run("A=5")
    outcome = await session.run(text, timeout=0.3 if fate == "lost" else 10, grace=0)
    assert outcome.session is not None
    if outcome.session.state in fate.split(" or "):  # the state depends on the contents of bash's memory
        fate = outcome.session.state
    assert outcome.session.state == fate, text[:80]
    # SIGVTALRM is the interrupt of a session: the shell ends the text without a status.
    interrupts = text.startswith("kill -s VTALRM")
    assert outcome.status == ("timed_out" if fate == "lost" else "lost" if interrupts else "exited")
    # Twice: a broken session could still run the first command.
    for first in (True, False):
        after = await session.run('/bin/echo "<${A-gone}>"; A=${A-gone}', timeout=10)
        assert after.session is not None
        assert (after.status, after.session.state) == ("exited", "kept"), text[:80]
        assert bool(after.session.fresh) == (first and fate != "kept"), text[:80]
        assert ("<5>" if fate == "kept" else "<gone>") in after.output.text, text[:80]


def test_page_lists_exactly_the_tested_lines() -> None:
    rows = [
        [cell.strip() for cell in row.strip("|").split(" | ")]
        for row in PAGE.read_text().splitlines()
        if re.match(r"\| (?!what)", row)
    ]
    told = {row[0].removeprefix("| ").strip(): row[1:] for row in rows if len(row) == 4}
    assert told == {name: [each.bash, each.zsh, each.sh] for name, each in LINES.items()}


@pytest.mark.parametrize("kind", ["bash", "zsh"])
def test_status_written_twice_is_read_correctly(kind: ShellKind, tmp_path: Path) -> None:
    """An interrupted printf of zsh writes its text a second time."""
    info = ShellInfo(kind=kind, path=shell_path(kind, tmp_path), version="")
    conversation = converse(info, str(tmp_path))
    assert isinstance(conversation, Conversation)
    frame = Frame(
        number=1,
        mark="MARK",
        tag=None,
        stdout="out",
        stderr=None,
        stdin=None,
        status=6,
        begun=False,
        cwd=None,
        env={},
        variables=False,
        pids=False,
        careful=False,
        redefined=False,
        alone=False,
        marked=False,
    )
    writes = conversation._head(frame, 8, "x").replace(">|", ">>")
    text = f"{writes}\n{writes}\n. {tmp_path}/status\necho $?"
    done = subprocess.run([info.path, "-c", text], capture_output=True, text=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == ("6\n", "")


@pytest.mark.parametrize("text", ["\\. ./lib", ". ./lib", "source lib", "shopt -so onecmd", "exec() { :; }"])
def test_text_that_may_redefine_commands_of_anyshell_is_detected(text: str) -> None:
    conversation = converse(ShellInfo(kind="bash", path="bash", version=""), "/directory")
    assert conversation.needs_care(text)


def test_line_is_short_until_commands_may_be_redefined() -> None:
    conversation = converse(ShellInfo(kind="bash", path="bash", version=""), "/directory")
    assert isinstance(conversation, Conversation)
    assert conversation.redefines("alias x=y")
    assert conversation.redefines("builtin() { :; }")
    assert not conversation.redefines("echo hi")
    line = conversation.line(1, back="0123456789", redefined=False)
    assert len(line) < len(conversation.line(1, back="0123456789", redefined=True)) / 1.5
