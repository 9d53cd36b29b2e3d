"""Lines for the parsers of a policy, and the results of bash and shfmt for them: ``python -m tests.policy_lines [COUNT] [SEED]``.

A line consists of commands in places and of words in places, some of these nested, and is then slightly corrupted:
characters with a meaning for a shell are inserted where no person would write them. The programs of a line are called
p1, p2 …, which no system has; bash reports the programs that it ran.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from anyshell.policy.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anyshell.policy.parse import Parsed

# Between bars, with ¢ for a command, § for a short one (where it is evaluated again and again), ¤ for a word, ⏎ for the end of a line, ⇥ for a tab.
COMMANDS = r"""
¢; ¢ ¦ ¢ && ¢ ¦ ¢ || ¢ ¦ ¢ & ¢ ¦ ¢ | ¢ ¦ ¢ |& ¢ ¦ ! ¢ ¦ !  ! ¢ ¦ { ¢; } ¦ { ¢; } > f ¦ (¢) ¦ ( ¢ ) 2> f ¦ ((1)) && ¢ ¦ ¢⏎¢ ¦ ¢;⏎¢ ¦ ¢ &&⏎¢ ¦ ¢ |⏎¢ ¦ ¢ &⏎¢
if ¢; then ¢; fi ¦ if ¢; then ¢; else ¢; fi ¦ if false; then ¢; elif ¢; then ¢; fi ¦ if ! ¢⏎then⏎¢⏎fi ¦ while ¢; do ¢; break; done
until false; do ¢; break; done ¦ while ! ¢; do break; done ¦ for x in ¤ ¤; do ¢; done ¦ for x in a b⏎do⏎¢⏎done ¦ for x; do ¢; done; ¢
for ((i=0; i<2; i++)); do ¢; done ¦ for ((i=$(¢); i<2; i++)); do ¢; done ¦ select x in a; do ¢; break; done ¦ case ¤ in a) ¢;; *) ¢;; esac
case ¤ in (a|¤) ¢;; *) ¢;& *) ¢; esac ¦ case a in a) ¢⏎esac ¦ f() { ¢; }; f ¦ f() { ¢; } ¦ f() (¢); f ¤ ¦ function f { ¢; }; f ¦ f() if ¢; then ¢; fi; f
f()⏎{⏎¢⏎}⏎f ¦ [[ -n ¤ ]] && ¢ ¦ [[ ¤ == ¤ ]] || ¢ ¦ [[ a && ¤ ]] && ¢ ¦ [[ ¤ =~ a ]]; ¢ ¦ [[ ( ¤ ) ]] && ¢ ¦ [[ ¤ -eq ¤ ]] && ¢ ¦ [ -n ¤ ] && ¢
[ ¤ = ¤ ] ; ¢ ¦ [ ¤ -eq ¤ ] && ¢ ¦ test -n ¤ && ¢ ¦ test ¤ && ¢ ¦ time ¢ ¦ time -p ¢ ¦ time { ¢; } ¦ time (¢) ¦ time ! ¢ ¦ coproc ¢ ¦ coproc X { ¢; }
x=¤ ¢ ¦ x=¤ y=¤ ¢ ¦ x=¤; ¢ ¦ x=$(¢) ¢ ¦ x=`¢` ¦ x+=¤; ¢ ¦ x=(¤ ¤); ¢ ¦ x=([1]=¤); ¢ ¦ x=([¤]=a); ¢ ¦ x[¤]=a; ¢ ¦ x[$(§)]=1 ¦ export x=¤; ¢ ¦ export ¤ ; ¢
declare x=¤ ¦ declare -i x=¤; ¢ ¦ declare -a x=¤ ¦ local x=¤ ¦ readonly z¤=a ¦ typeset ¤ ¦ declare ¤ ¤ && ¢ ¦ unset ¤ ¦ unset x[¤] ¦ let ¤ ¦ let x=¤ && ¢ ¦ ((¤)) || ¢
((x = ¤)); ¢ ¦ ((x[¤])); ¢ ¦ $((¤)) ¢ ¦ ¢ $((¤)) ¦ ¢ $((x ¤ 2)) ¦ ¢ $((1 + $(¢))) ¦ ¢ $[¤] ¦ ¢ $[ $(¢) ] ¦ ¢ ${x[¤]} ¦ ¢ ${x:¤:1} ¦ ¢ ${x:$(¢)}
> f ¢ ¦ < /dev/null ¢ ¤ ¦ ¢ > f ¤ ¦ ¢ > ¤ ¤ ¦ ¢ 2>&1 ¤ > f ¦ ¢ < ¤ | ¢ ¦ ¢ &> f ¦ ¢ >& f ¦ ¢ >&2 ¦ ¢ <> f ¤ ¦ ¢ {x}> f ¦ ¢ >> ¤ && ¢ ¦ ¢ 3> f 4>&3 ¦ ¢ >| f ¦ 2> f ¢ | ¢
¢ <<< ¤ ¦ ¢ <<< "$(¢)" ¦ ¢ <<E⏎$(¢)⏎E ¦ ¢ <<E⏎`¢` ¤⏎E⏎¢ ¦ ¢ <<'E'⏎$(¢)⏎E⏎¢ ¦ ¢ <<-E⏎⇥$(¢)⏎⇥E⏎¢ ¦ ¢ <<"E" && ¢⏎¤⏎E ¦ ¢ <<E | ¢⏎${x:-$(¢)}⏎E
¢ <<\E⏎`¢`⏎E ¦ ¢ <<-'E'; ¢⏎⇥¤⏎⇥E ¦ ¢ <<E > f⏎$((¤))⏎E⏎¢ ¦ ¢ <<E ¤⏎a⏎E⏎¢ ¦ ¢ <<E1 <<E2⏎$(¢)⏎E1⏎$(¢)⏎E2⏎¢ ¦ { ¢; } <<E⏎¤⏎E ¦ ¢ <<E; ¢⏎E
¢ <(¢) ¦ ¢ >(¢) ¦ ¢ < <(¢) ¦ ¢ > >(¢) 2> >(¢) ¦ ¢ ¤ <(¢ | ¢) ¦ eval ¢ ¦ eval "¢" ¦ eval '¢; ¢' ¦ eval ¤ ¢ ¦ eval "x=¤; ¢" ¦ bash -c '¢' ¦ bash -c "¢" ¦ bash -c "¢ ¤" ¦ bash -c ¢
sh -c '¢ && ¢' x ¦ bash -ec '¢' ¦ bash <<< '¢' ¦ bash <<E⏎¢⏎E ¦ sh <<'E'⏎¢⏎E ¦ command ¢ ¦ command -p ¢ ¦ builtin eval '¢' ¦ builtin ¢ ¦ exec ¢ ¦ exec > f; ¢
(exec ¢) ¦ . <(¢) ¦ source /dev/stdin <<< '¢' ¦ trap '¢' EXIT ¦ trap '¢' 0; ¢ ¦ alias a=¢; a ¦ shopt -s expand_aliases; alias a=¢⏎a ¦ hash -p /bin/x ¢; ¢
printf -v 'x[$(§)]' ¤ ¦ printf -v ¤ a ¦ read 'x[$(§)]' <<< a ¦ read -r ¤ <<< ¤ ¦ mapfile -C '¢' -c 1 x <<< a ¦ mapfile -t ¤ <<< a ¦ [[ -v ¤ ]] ¦ [ -v 'x[$(§)]' ]
test -v 'x[$(§)]' ¦ [[ 'x[$(§)]' -eq 1 ]] ¦ [[ 1 -lt x ]] ¦ x='a[$(§)]'; echo $((x)) ¦ x='a[$(§)]'; ((x)) ¦ x='a[$(§)]'; [[ x -gt 1 ]]; ¢ ¦ x='a[$(§)]'; let x
x='a[$(§)]'; echo ${y[x]} ¦ x='a[$(§)]'; echo ${y:x} ¦ x='a[$(§)]'; unset "$x" ¦ x='a[$(§)]'; [ -v $x ] ¦ x='$(¢)'; echo "${x@P}" ¦ x='-v a[$(§)]'; [ $x ]
x='a[$(§)]'; declare -i y=x ¦ x='a[$(§)]'; for ((i=x; i<1; i++)); do ¢; done ¦ x=1; ¢ $((x + 1)) ¦ for x in 1 2; do ¢ $((x)); done ¦ x='a[$(§)]'; x=1 ¢ $((x))
x='a[$(§)]'; true && x=1; ¢ $((x)) ¦ x='a[$(§)]'; f() { x=1; }; echo $((x)) ¦ x='a[$(§)]'; (x=1); echo $((x)) ¦ x=1; x='a[$(§)]'; echo $((x)) ¦ x='a[$(§)]'; y=1; echo $((y+x))
x='a[$(§)]'; declare -n y=x; echo $y ¦ declare -n r='a[$(§)]'; echo $r ¦ x=¢; $x ¦ x='¢ a'; $x ¦ "¢" ¦ 'p1' ¤ ¦ p\1 ¦ p"1" ¤ ¦ $'p1' ¦ p1'' ; ¢ ¦ "p""2" ¤ ¦ \¢ ¦ {p1,p2} ¦ p[1] ¦ p? ¤ ¦ ~/p1 ¦ ./p1 ¦ $(¢) ¤
`¢` ¦ "`¢`" ¦ ¢ "`¢`" '`¢`' ¦ ¢ "$(¢)" '$(¢)' \$(¢) ¦ ¢ \`¢\` ¦ ¢ "\$(¢)" ¦ ¢ "\`¢\`" ¦ ¢ `¢ \`¢\`` ¦ ¢ $'$(¢)' ¦ ¢ $"$(¢)" ¦ ¢ # ¢ ¦ ¢ #¢⏎¢ ¦ ¢; # ¢ \⏎¢ ¦ # ¢⏎¢ ¦ ¢ a#b ¤ # $(¢)⏎¢
PS4='$(¢)'; set -x; ¢ ¦ PS4='$(¢)' ¢ ¦ BASH_ENV=¤ bash -c ¢ ¦ PROMPT_COMMAND=¢ ¦ set -- $(¢); ¢ "$@" ¦ set -k; ¢ ¤ ¦ IFS=¤ read x <<< ¤ ¦ IFS=1; ¢ ¦ cd $(¢) && ¢ ¦ pushd "$(¢)"
echo $(¢ # )⏎) ¦ echo $(case a in a) ¢;; esac) ¦ echo $( (¢) ) ¦ echo $((¢) ) ¦ echo $(( ¢ ) ) ¦ (( ¢ ); ¢) ¦ ((¢) ; ¢) ¦ echo $(<f) ¦ echo $(< f; ¢) ¦ echo "$(cat <<E⏎$(¢)⏎E⏎)" ; ¢
echo "$(¢ <<'E'⏎it's ) a⏎E⏎)" | ¢ ¦ echo $(¢ "$(¢ '$(¢)')") ¦ ¢ "a $(¢ "b $(¢) c") d" ¦ ¢ "${x:-"$(¢)"}" ¦ echo "${x:-'$(¢)'}" ¦ echo ${x:-'$(¢)'} ¦ echo "${x#'$(¢)'}" ¦ echo ${x/'$(¢)'/b}
echo ${x#$(¢)} ¦ echo ${x%`¢`} ¦ echo "${x^$(¢)}" ¦ echo ${x,,$(¢)} ¦ echo ${x/$(¢)/$(¢)} ¦ echo ${x//"$(¢)"} ¦ echo ${!x} ¦ echo ${#x[$(§)]} ¦ echo ${x:?$(¢)} ¦ echo ${x:=$(¢)}; ¢ ¦ ${x:=¢}
${x:-¢} ¦ ${x:-¢} ¤ ¦ "${x:-¢}" ¦ x=a; echo ${x:+$(¢)} ¦ x=a ${x:+¢} ¦ env ¢ ¦ env x=¤ ¢ ¦ env -u x ¢ ¦ nohup ¢ ¦ timeout 5 ¢ ¦ nice -n 5 ¢ ¦ setsid ¢ ¦ xargs ¢ < /dev/null ¦ find . -maxdepth 0 -exec ¢ \;
"""
WORDS = r"""
a ¦ b c ¦ "a" ¦ 'a' ¦ "a b" ¦ 'a "b' ¦ "it's" ¦ a\ b ¦ \; ¦ \& ¦ \( ¦ "\"" ¦ "\\" ¦ '\' ¦ $x ¦ "$x" ¦ ${x} ¦ "${x}" ¦ $1 ¦ $@ ¦ "$@" ¦ $# ¦ $? ¦ $$ ¦ $! ¦ $- ¦ ${#x} ¦ ${x:-¤} ¦ "${x:-¤}" ¦ ${x:-a b} ¦ ${x:+¤} ¦ ${x:=¤} ¦ ${x:?} ¦ ${x%}
${x%.*} ¦ ${x##*/} ¦ ${x/a/b} ¦ ${x//¤/b} ¦ "${x//a/¤}" ¦ ${x^^} ¦ ${x,,¤} ¦ ${x:0:1} ¦ ${x: -1} ¦ ${x[0]} ¦ ${x[@]} ¦ "${x[*]}" ¦ ${!x} ¦ ${!x@} ¦ ${!x[@]} ¦ ${x@Q} ¦ ${x@P} ¦ $(¢) ¦ "$(¢)" ¦ `¢` ¦ "`¢`" ¦ $(¢ ¤) ¦ "a$(¢)b"
a$(¢)b ¦ a`¢` ¦ $((1+1)) ¦ $((¤)) ¦ "$((1))" ¦ $[1] ¦ <(¢) ¦ * ¦ *.p ¦ ? ¦ [a-z] ¦ ~ ¦ ~/a ¦ {a,b} ¦ {1..3} ¦ a{¤,b}c ¦ {¤..3} ¦ $'a' ¦ $'\'' ¦ $'$(¢)' ¦ $"a" ¦ $"$(¢)" ¦ ! ¦ !! ¦ ^ ¦ # ¦ a#b ¦ a=b ¦ --a=¤ ¦ -n ¦ -- ¦ - ¦ = ¦ % ¦ a^ ¦ a~b ¦ "!" ¦ '$(¢)'
'`¢`' ¦ \$(¢) ¦ "\$(¢)" ¦ "\`¢\`" ¦ 'a'"b"c ¦ "a"'$(¢)' ¦ '' ¦ "" ¦ $ ¦ "$" ¦ a$ ¦ $¤ ¦ \$ ¦ \\ ¦ "a ¦ $'\n' ¦ 1 ¦ 0 ¦ -1 ¦ 16#ff ¦ 1+1 ¦ x ¦ x[0] ¦ a[$(§)] ¦ 'a[$(§)]' ¦ é ¦ ä$(¢) ¦ " " ¦ $(<f) ¦ $() ¦ ${} ¦ ${ ¦ $((
"""
SPOILS = [
    *"`$(){}[]<>|&;#!'\"\\ \n\t*?~=^@:-/%1aE",
    "\\\n",
    "\r",
    "\v",
    "\f",
    "\\ ",
    "$(",
    "${",
    "$((",
    "))",
    "<(",
    ">(",
    "<<",
    "<<<",
    ">&",
    "$'",
    '$"',
    "&&",
    "||",
    ";;",
    "|&",
    " # ",
    "\\\\",
    "''",
    '""',
    " \\\n ",
    "{ ",
    " }",
    "! ",
    "time ",
    "then ",
    "do ",
    "done",
    "esac",
    "in ",
    "\n\n",
    ";\n",
    "p9 ",
    ";p9;",
    "\np9\n",
    "$(p9)",
    "`p9`",
    " p9",
    "<<E\n",
    "\nE\n",
    "<<-E\n\t",
    "\t",
    "\u00a0",
    "\u2003",
    "é",
    "x=",
    "a=(",
    "[[ ",
    " ]]",
    "[ ",
    " ]",
    "(( ",
    "case a in a) ",
    "if ",
    "fi",
    "function ",
    "f() ",
    "eval ",
    "--",
    "*(",
    "@(",
    "2>",
    "1>&2",
    "{x}>",
]
BATCH = 100
REPORT = re.compile(r"(\d+) (\S+)")


def _choices(listed: str) -> list[str]:
    lines = listed.strip("\n").split("\n")
    return [each.replace("⏎", "\n").replace("⇥", "\t") for line in lines for each in line.split(" ¦ ")]


_COMMANDS, _WORDS = _choices(COMMANDS), _choices(WORDS)


class Generator:
    """Generates lines, equal for an equal seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._programs = 0

    def line(self) -> str:
        """One line, or several in one text."""
        self._programs = 0
        line = self._fill("¢", self._random.choice((1, 2, 2, 3)))
        for _ in range(self._random.choice((0, 0, 0, 0, 0, 1, 1, 2))):
            at = self._random.randrange(len(line) + 1)
            line = line[:at] + self._random.choice(SPOILS) + line[at + self._random.choice((0, 0, 0, 1)) :]
        return line.replace("\0", "")

    def _fill(self, text: str, depth: int) -> str:
        return re.sub(
            "[¢¤]", lambda hole: self._command(depth) if hole[0] == "¢" else self._word(depth), text
        )

    def _command(self, depth: int) -> str:
        if depth:
            return self._fill(self._random.choice(_COMMANDS), depth - 1)
        self._programs += 1
        return f"p{self._programs}" + self._random.choice(("", "", " a", " 'b c' -d"))

    def _word(self, depth: int) -> str:
        return (
            self._fill(self._random.choice(_WORDS), max(depth - 1, 0))
            if depth
            else self._random.choice(("a", "$x", "'b'"))
        )


REPORTER = r"""
command_not_found_handle() { case $1 in p[0-9]*) printf '%s %s\n' "$LINE_OF_TEST" "${1//$'\n'/}" >> "$LOG_OF_TEST";; esac; return $((RANDOM % 2)); }
export -f command_not_found_handle
n=$FIRST_OF_TEST
while IFS= builtin read -r -d '' line; do
    export LINE_OF_TEST=$n
    (
        ulimit -t 2 -f 1000
        cd "$FRESH_OF_TEST"
        builtin eval "$line"
        builtin wait
    ) </dev/null >/dev/null 2>&1
    n=$((n + 1))
done
"""


_STARTS = re.compile(r"env|nohup|timeout|nice|setsid|xargs|find")


def bash_runs(lines: Sequence[str]) -> list[set[str]]:
    """The programs of each line that bash runs, each line in a separate shell.

    A handler of bash reports commands that bash does not find. Commands that other programs start have no handler: lines with
    such a program get p1, p2 … as files, which is slower.
    """
    ran: list[set[str]] = [set() for _ in lines]
    for files in (False, True):
        chosen = [place for place, line in enumerate(lines) if bool(_STARTS.search(line)) == files]
        for place, programs in _reported([lines[place] for place in chosen], files):
            ran[chosen[place]].add(programs)
    return ran


def _reported(lines: Sequence[str], files: bool) -> Iterator[tuple[int, str]]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "bin").mkdir()
        (place / "fresh").mkdir()
        (place / "log").touch()
        for name in ("bash", "sh", "env", "xargs", "find", "timeout", "nice", "nohup", "setsid", "cat"):
            there = shutil.which("bash" if name == "sh" else name)
            if there:
                (place / "bin" / name).symlink_to(there)
        stub = place / "stub"
        stub.write_text('#!/bin/sh\necho "$LINE_OF_TEST ${0##*/}" >> "$LOG_OF_TEST"\n')
        stub.chmod(0o755)
        for number in range(1, 30 * files):
            (place / "bin" / f"p{number}").symlink_to(stub)
        environment = {
            "PATH": str(place / "bin"),
            "LOG_OF_TEST": str(place / "log"),
            "FRESH_OF_TEST": str(place / "fresh"),
            "HOME": str(place / "fresh"),
        }
        begun = 0
        while begun < len(lines):
            process = subprocess.Popen(
                [shutil.which("bash") or "bash", "--norc", "-c", REPORTER],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**environment, "FIRST_OF_TEST": str(begun)},
                start_new_session=True,
            )
            batch = lines[begun : begun + BATCH]
            begun += len(batch)
            with contextlib.suppress(
                subprocess.TimeoutExpired
            ):  # a line that does not end also stops the rest of its batch
                process.communicate(b"".join(line.encode("utf-8") + b"\0" for line in batch), timeout=20)
            if sys.platform != "win32":
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
            process.wait()
        for report in (place / "log").read_text(encoding="utf-8", errors="replace").splitlines():
            matched = REPORT.fullmatch(report)
            if matched:
                yield int(matched[1]), matched[2]


# shfmt 4.2 reads the body of a quoted here-document for substitutions if its opening line contains [[. bash does not.
_SHFMT_ERRS = re.compile(r"""<<-?[ \t]*['"\\][^\n]*\[\[""")


def shfmt_names(lines: Sequence[str]) -> list[set[str] | None]:
    """The programs of each line that shfmt names; ``None`` for a line that shfmt cannot parse."""
    if not lines:
        return []
    marked = "".join(f"mark {place}\n{line}\n" for place, line in enumerate(lines))
    ran = subprocess.run(
        [Path(sys.executable).parent / "shfmt", "--to-json"],
        input=marked.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    if ran.returncode:
        if len(lines) == 1:
            return [None]
        half = len(lines) // 2
        return [*shfmt_names(lines[:half]), *shfmt_names(lines[half:])]
    found: list[set[str] | None] = [set() for _ in lines]
    place = 0
    for words in _calls(json.loads(ran.stdout)):
        if len(words) == 2 and words[0] == "mark":
            place = int(words[1])
        else:
            names = found[place]
            assert names is not None
            names.add(words[0])
    return found


def _calls(node: object) -> Iterator[list[str]]:
    """The literal words of each call in shfmt's tree, in the order of their positions."""
    if isinstance(node, list):
        for each in node:
            yield from _calls(each)
    elif isinstance(node, dict):
        if node.get("Type") == "CallExpr":
            words = [_literal(word) for word in node.get("Args") or ()]
            if words and words[0]:
                yield [word or "" for word in words]
        for each in node.values():
            yield from _calls(each)


def _literal(word: dict[str, object]) -> str:
    parts = word.get("Parts")
    assert isinstance(parts, list)
    if all(part["Type"] == "Lit" for part in parts):
        return re.sub(r"\\(.)", r"\1", "".join(part["Value"] for part in parts))
    return ""


def named(parsed: Parsed) -> set[str]:
    """The programs in a parsed text."""
    return {command.program.replace("\n", "") for command in parsed.commands if command.program}


def compared(count: int, seed: int) -> tuple[list[str], str]:
    """The programs that bash ran or shfmt named and the parser missed, in a number of lines; and the counts."""
    generator = Generator(seed)
    distinct: dict[str, None] = {}
    while len(distinct) < count:
        distinct.setdefault(generator.line())
    lines = list(distinct)
    parsed = [parse(line, "bash") for line in lines]
    ran = bash_runs(lines)
    understood = [place for place, each in enumerate(parsed) if each.understood]
    missed = [
        f"bash ran {sorted(ran[place] - named(parsed[place]))}: {lines[place]!r}"
        for place in understood
        if not ran[place] <= named(parsed[place])
    ]
    read = 0
    for start in range(0, len(understood), 200):
        chosen = understood[start : start + 200]
        for place, names in zip(chosen, shfmt_names([lines[place] for place in chosen]), strict=True):
            if names is not None and not _SHFMT_ERRS.search(lines[place]):
                read += 1
                if not names <= named(parsed[place]):
                    missed.append(f"shfmt names {sorted(names - named(parsed[place]))}: {lines[place]!r}")
    numbers = (
        f"{len(lines)} lines: bash ran a program in {sum(map(bool, ran))}; {len(understood)} are understood, of which bash ran a "
        f"program in {sum(bool(ran[place]) for place in understood)} and shfmt reads {read}; {len(missed)} missed"
    )
    return missed, numbers


def main() -> None:
    """Print the missed programs, and the counts."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    missed, numbers = compared(count, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(*missed, numbers, sep="\n")


if __name__ == "__main__":
    main()
