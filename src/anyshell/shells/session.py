"""What a persistent shell is given, so that it runs one text after another and says how each has ended.

The shell reads its own input line by line. For each command it is told to source a text of ours, which sources
``command``, a file that holds the caller's text and nothing else: so quotes and heredocs that are never closed end with
the file. What the command prints goes to a named pipe of its own; how it ended goes to the stream that was the shell's
standard error when it started, and that no command has.

Interrupting: SIGVTALRM, which programs of a shell hardly use, reaches a trap of ours before the next command of a text
begins. From there on nothing of the text runs any more, and the shell is back at its input, with all that it knew:

* bash: a DEBUG trap under ``extdebug`` makes it return from every function and file (bash(1), ``shopt``, extdebug, 3).
* zsh: a trap function that returns non-zero aborts what runs (zshmisc(1), Trap Functions), a DEBUG trap of that kind
  whatever comes after, at every level.
* sh: the trap returns from its function or file, and has the signal sent once more before that, for the next level.

Where that cannot be sure, such as where a text has a DEBUG trap of its own, the trap kills the shell instead.

The shell reads a second line with each command. If it comes to that without having said how the command ended, since
the text took from it what it says that with, it kills itself: nobody waits for it in vain. Where a shell might not come
back to its input at all, as bash after ``set -t``, it is also asked to say that it has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anyshell._types import ShellInfo, ShellKind

    from .posix import Shell

RESERVED = frozenset(
    f"ANYSHELL_{name}" for name in ("EXEC", "FIRST", "LAST", "SET", "STATUS", "TOLD", "TRACE")
)
"""Variables that the shell is led by; no caller can set them."""

LIFE_FD = {"bash": 197}
"""The descriptor by which everything that a command starts has the pipe that it prints to."""

_LIFE_FD = 9
"""The same where a shell knows single digits alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What surrounds one command.

    Attributes:
        number: Its number; what is said of it begins with that.
        mark: A variable that what it starts gets.
        tag: A soft limit on file locks that what it starts gets.
        stdout: The pipe that it prints to.
        stderr: The one for its errors, if the channels are split.
        stdin: The pipe that it reads; ``None`` is end-of-file at once.
        status: What ``$?`` is when it begins.
        begun: Whether to tell that it begins.
        cwd: A directory that the shell changes to before; ``None`` leaves it where it is.
        env: Variables that it exports before.
        variables: Whether to tell the exported variables before and after it.
        pids: Whether to tell which pid the host gave last, before and after it.
        careful: Whether the shell may have a trap, or trace: see `Conversation.needs_care`.
    """

    number: int
    mark: str
    tag: int | None
    stdout: str
    stderr: str | None
    stdin: str | None
    status: int
    begun: bool
    cwd: str | None
    env: Mapping[str, str]
    variables: bool
    pids: bool
    careful: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """Speaks with one persistent shell.

    Args:
        shell: Its kind.
        directory: The private directory on the host.
    """

    shell: Shell
    directory: str

    @property
    def life_fd(self) -> int:
        """The descriptor by which everything that a command starts has the pipe that it prints to."""
        return LIFE_FD.get(self.shell.kind, _LIFE_FD)

    @property
    def numbers_statuses(self) -> bool:
        """Whether a status begins with the number of its command: a readonly variable would otherwise stand for all.

        It ends sh, which needs none.
        """
        return self.shell.kind != "sh"

    def argv(self, info: ShellInfo) -> tuple[str, ...]:
        """What is started."""
        return (info.path, *self.shell.options, "-s")

    def begin(self, snapshot: str | None) -> str:
        """What the shell reads first, a file of the user's own set-up among it."""
        begin = _BEGIN[self.shell.kind].replace("DIRECTORY", self._path(""))
        return begin if snapshot is None else f"{begin}{self.shell.load(snapshot)}\n"

    def tell_pid(self) -> str:
        """The line that has the shell say its pid."""
        kind = self.shell.kind
        return f"{_BUILTIN[kind]} printf '\\000shell %s\\000' $$ >&{_STATUS_FD[kind]}\n"

    def line(self, number: int, run: str = "", command: str | None = None, *, ask: bool = False) -> str:
        """The lines that have the shell run a command.

        Args:
            number: Its number.
            run: What `run` returned, if it was not written to the file that `run_file` names.
            command: The text of the command, if it was not written to the file ``command``.
            ask: Whether the shell has to say that it is back.
        """
        kind = self.shell.kind
        source = f"{_BUILTIN[kind]} . {self._path(self.run_file(number))}"
        said = f";{_BUILTIN[kind]} printf 'back\\0' >&{_STATUS_FD[kind]}" if ask else ""
        back = f"{_UNLESS_TOLD[kind]}{said}\n"
        written = [(self.run_file(number), run)] if run else []
        if command is not None:
            written.append(("command", command))
        if not written:
            return f"{source}\n{back}"
        writes = " && ".join(
            f"{_BUILTIN[kind]} printf %s {self.shell.quote(text)} 2>/dev/null >|{self._path(name)}"
            for name, text in written
        )
        # What could not be written whole must not run, and the one before not again.
        return (
            f"if {writes}; then {source}; else {_BUILTIN[kind]} printf '\\000ended {number} full \\n\\000' >&{_STATUS_FD[kind]}; "
            f"ANYSHELL_TOLD=1; fi\n{back}"
        )

    @staticmethod
    def run_file(number: int) -> str:
        """The name of the file for what `run` returns.

        Two take turns: a shell that has said how a command ended may not have read that file to its end yet.
        """
        return f"run{number % 2}"

    def run(self, frame: Frame) -> str:
        """The text that runs the file ``command`` and says how it ended."""
        return _RUN[self.shell.kind](self, frame)

    def interrupt(self, number: int) -> str:
        """Nothing: a signal interrupts the shell."""
        return ""

    def exit_code(self, said: int) -> int:
        """The exit code of a command, of which the shell has said a number: some let a function return anything."""
        return said & 0xFF

    def stays_interruptible(self, text: str) -> bool:
        """Whether a shell can be interrupted still that has run a text, as far as the text shows that.

        What it sources, and what it puts together, is not seen.
        """
        return _UNINTERRUPTIBLE[self.shell.kind].search(text) is None

    def needs_care(self, text: str) -> bool:
        """Whether a shell that has run a text may have a trap for EXIT or DEBUG, or trace what it does.

        What an EXIT trap prints must go to the output, and what others print of ours must not. That takes time.
        """
        return _NEEDS_CARE.search(text) is not None

    def may_not_come_back(self, text: str, *, careful: bool) -> bool:
        """Whether the shell may end by itself after it has said how a text ended.

        bash does after ``set -t``, and after ``$(`` without an end.
        """
        return self.shell.kind == "bash" and (careful or "$(" in text)

    def _path(self, name: str) -> str:
        return self.shell.quote(f"{self.directory}/{name}")

    def _head(self, frame: Frame, status_fd: int, limit: str) -> str:
        """Before the command: its mark and its tag, and the variables as they are."""
        builtin = _BUILTIN[self.shell.kind]
        lines = [f"{builtin} export {frame.mark}=1"]
        if frame.pids:
            lines.append(self._last_pid("ANYSHELL_FIRST"))
        if frame.tag is not None:
            lines.append(f"{builtin} ulimit -S -{limit} {frame.tag} 2>/dev/null")
        if frame.variables:
            lines.append(self._variables(frame, status_fd))
        if frame.env:
            lines.append(f"{builtin} export " + self.shell.join("=".join(pair) for pair in frame.env.items()))
        if frame.status and self.shell.kind != "sh":
            # What sets $? to it without a function or a subshell: a file that returns it.
            lines.append(f"{builtin} printf 'return %s' {frame.status} >|{self._path('status')}")
        return "\n".join(lines)

    def _guarded(self, frame: Frame, status_fd: int, run: str) -> str:
        """The command, if the shell can be where it is to run; whoever waits for that is told."""
        builtin = _BUILTIN[self.shell.kind]
        begun = f"{builtin} printf '\\000begun {frame.number}\\000' >&{status_fd}\n{run}"
        if frame.cwd is None:
            return begun if frame.begun else run
        return (
            f"if {builtin} cd -- {self.shell.quote(frame.cwd)} >/dev/null 2>&1; then "
            f"{begun}\nelse ANYSHELL_STATUS={self._number(frame)}cwd; fi"
        )

    def _number(self, frame: Frame) -> str:
        return f"{frame.number}:" if self.numbers_statuses else ""

    def _variables(self, frame: Frame, status_fd: int) -> str:
        return (
            f"{{ {_BUILTIN[self.shell.kind]} printf '\\000variables {frame.number}\\000'; \\command -p env -0; "
            f"{_BUILTIN[self.shell.kind]} printf '\\000'; }} 2>/dev/null >&{status_fd}"
        )

    def _last_pid(self, variable: str) -> str:
        """Take down which pid the host gave last, behind the last space of that variable (proc(5), /proc/loadavg)."""
        return f"{variable}=; {_BUILTIN[self.shell.kind]} read -r {variable} 2>/dev/null </proc/loadavg || :"

    def _input(self, frame: Frame) -> str:
        return "</dev/null" if frame.stdin is None else f"<{self.shell.quote(frame.stdin)}"

    def _output(self, frame: Frame) -> str:
        stderr = "2>&1" if frame.stderr is None else f"2>|{self.shell.quote(frame.stderr)}"
        return f">|{self.shell.quote(frame.stdout)} {stderr} {self.life_fd}>&1"

    def _tell(self, frame: Frame) -> str:
        """How it ended, and where the shell is.

        The NUL parts it from what got there before. Each word is redirected by itself where there may be a DEBUG trap,
        which prints before that. Without a status, a file or a pipe was not there for the text; or a variable of ours
        cannot be set, or a function of ours is gone, and then the shell cannot go on.
        """
        builtin, fd = _BUILTIN[self.shell.kind], _STATUS_FD[self.shell.kind]
        each, all_of_it = (f" >&{fd}", "") if frame.careful else ("", f" >&{fd}")
        ended = f"\\000ended {frame.number} %s %s" + " %s %s" * frame.pids + "\\n"
        words = '"${ANYSHELL_STATUS:-x}" "${ANYSHELL_SET:+i}"'
        if frame.pids:
            words += ' "${ANYSHELL_FIRST##* }" "${ANYSHELL_LAST##* }"'
        # PWD is a variable like any other, and what the shell remembers may have another name by now.
        there = '[ . -ef "${PWD-}" ]' if self.shell.kind == "sh" else "[[ ${PWD-} == /* && . -ef $PWD ]]"
        where = (
            f"{{ if {there} 2>/dev/null; then {builtin} pwd{each}; else "
            f"\\command -p env pwd -P{each} || {builtin} printf '%s\\n' \"${{PWD-}}\"{each}; fi; }}"
        )
        tell = f"{builtin} printf '{ended}' {words}{each} && {where} && {builtin} printf '\\000'{each}"
        if self.shell.kind != "sh" and not frame.careful:
            # At once, which wakes nobody three times.
            at_once = f"{builtin} printf '{ended}%s\\n\\000' {words} \"$PWD\""
            tell = f"if {there}; then {at_once}; else {tell}; fi"
        return (
            (f"{self._last_pid('ANYSHELL_LAST')}\n" if frame.pids else "")
            + f"case ${{ANYSHELL_STATUS-}}${{ANYSHELL_SET-}} in '') {builtin} test -p {self.shell.quote(frame.stdout)} && "
            f'{builtin} kill -s KILL "$$";; esac\n'
            f"{{ {tell}; }}{all_of_it} && {_TOLD[self.shell.kind]}"
        )


_BUILTIN: dict[ShellKind, str] = {"bash": "\\builtin", "zsh": "\\builtin", "sh": "\\command"}

_STATUS_FD: dict[ShellKind, int] = {"bash": 199, "zsh": 8, "sh": 8}
"""Where the shell says how a command ended; closed to everything that a command starts."""

_TOLD: dict[ShellKind, str] = {
    # Whoever has replaced "builtin" sets no variable by it.
    "bash": "\\builtin printf -v ANYSHELL_TOLD 1",
    "zsh": "\\builtin printf -v ANYSHELL_TOLD 1",
    "sh": "ANYSHELL_TOLD=1",
}

_UNLESS_TOLD: dict[ShellKind, str] = {
    "bash": '[[ ${ANYSHELL_TOLD-} ]]||kill -9 "$$";ANYSHELL_TOLD=',
    "zsh": '[[ ${ANYSHELL_TOLD-} ]]||kill -9 "$$";ANYSHELL_TOLD=',
    "sh": '[ "${ANYSHELL_TOLD-}" ]||kill -9 "$$";ANYSHELL_TOLD=',
}
"""Short, since a shell reads its input byte by byte."""

_INTERRUPT_BASH = (
    "if ((${#BASH_SOURCE[@]} > 1)) && [[ ! ${ANYSHELL_SET-} ]]; then "
    '[[ :$BASHOPTS: == *:extdebug:* || $- == *T* || $(\\builtin trap -p DEBUG) ]] && \\builtin kill -s KILL "$$"; '
    "ANYSHELL_SET=x$-; \\builtin set +e; "
    # A status of 2 is what makes it return (and nothing but a wrong use of a builtin gives that without a function).
    '\\builtin trap "((\\${#BASH_SOURCE[@]} < 2)) || \\\\builtin test a -eq 1 2>/dev/null" DEBUG; '
    "\\builtin shopt -s extdebug; fi"
)

_INTERRUPT_ZSH = """TRAPVTALRM() {
(( ${#zsh_eval_context} > 3 )) || return 0
[[ $'\\n'"$(\\builtin trap)" == *$'\\n'"trap -- "*" DEBUG"* ]] && \\builtin kill -s KILL \"$$\"
(( ${+functions[TRAPDEBUG]} && ! ${+ANYSHELL_SET} )) && \\builtin kill -s KILL \"$$\"
ANYSHELL_SET=1
TRAPDEBUG() { (( ${#zsh_eval_context} > 3 )) && return 130; return 0 }
return 130
}
"""

_INTERRUPT_SH = (
    # The signal is sent while what "return" returns is worked out: sent before that, it would come before that.
    # Who does that is one of the text's processes, and may be asked to end meanwhile.
    'case ${1-} in anyshell:shell) ;; *) ANYSHELL_SET=1; return "$(kill -s VTALRM "$$")130" ;; esac'
)

_OURS = r"VTALRM|ANYSHELL_|\btrap\b.*\b26\b|\bbuiltin\s*\(|\bfunction\s+builtin\b"

_UNINTERRUPTIBLE: dict[ShellKind, re.Pattern[str]] = {
    # A function does not see such a trap, and it is there again after that.
    "bash": re.compile(_OURS + r"|\btrap\b.*\b(DEBUG|RETURN)\b"),
    "zsh": re.compile(_OURS),
    # bash and busybox as sh run an ERR trap before ours.
    "sh": re.compile(_OURS + r"|\btrap\b.*\b(DEBUG|RETURN|ERR)\b"),
}
"""What takes the trap away, or makes it do something else."""

_NEEDS_CARE = re.compile(r"\b(trap|TRAP\w*|set|exec|source|eval|BASH_XTRACEFD)\b|(^|[\s;&|])\.\s")

_BEGIN: dict[ShellKind, str] = {
    "bash": f"exec 199>&2 2>/dev/null >/dev/null; shopt -s expand_aliases; trap '{_INTERRUPT_BASH}' VTALRM\n",
    "zsh": f"exec 8>&2 2>/dev/null >/dev/null\n{_INTERRUPT_ZSH}",
    "sh": (
        f"exec 8>&2 2>/dev/null >/dev/null; set -- anyshell:shell; trap '{_INTERRUPT_SH}' VTALRM\n"
        "anyshell_run() { \\command . DIRECTORYcommand 8>&- && ANYSHELL_STATUS=0 || ANYSHELL_STATUS=$?; }\n"
        'anyshell_status() { return "$1"; }\n'
        'anyshell_run_on() { ANYSHELL_STATUS=$1; shift; anyshell_status "$ANYSHELL_STATUS" || '
        "\\command . DIRECTORYcommand 8>&- && ANYSHELL_STATUS=0 || ANYSHELL_STATUS=$?; }\n"
    ),
}
"""Where the shell's own descriptors go, and the trap. Nothing that it runs has its standard error of before."""


def _run_bash(speak: Conversation, frame: Frame) -> str:
    output = speak._output(frame)
    source = f"\\builtin . {speak._path('command')} 199>&-"
    if frame.careful:
        source += f" {output.rpartition(' ')[0]}"
    # "!" spares the shell an ERR trap and errexit for the file as a whole; inside it they are as ever.
    source = f"\\builtin . {speak._path('status')} || ! {source}" if frame.status else f"! {source}"
    source += f"; ANYSHELL_STATUS={speak._number(frame)}${{PIPESTATUS[0]}}"
    if frame.careful:
        # exec redirects its output, so that an EXIT trap prints there too. Not its input: the shell reads commands from
        # that. The group keeps what bash traces, and what a DEBUG trap prints, of our own commands out of the output; so
        # the text's is opened once more, by name: a copy of a high descriptor would have bash keep others next to that.
        run = (
            f"{_HIDE_EXEC} && \\exec {output} && {{ {_SHOW_EXEC}; {source}; "
            # What comes next is not traced either.
            f"case $- in *x*) ANYSHELL_TRACE=1; \\builtin set +x;; esac; {_HIDE_EXEC}; }} "
            # On one line: "set -v" prints each as it is read.
            f"{speak._input(frame)} >/dev/null 2>&1; "
            "\\exec >/dev/null 2>&1 197>&-"
        )
        after = f"{_SHOW_EXEC}\ncase ${{ANYSHELL_TRACE-}} in ?*) \\builtin unset ANYSHELL_TRACE; \\builtin set -x;; esac\n"
    else:
        run, after = f"{{ {source}; }} {speak._input(frame)} {output}", ""
    return (
        f"{speak._head(frame, 199, 'x')}\n" + speak._guarded(frame, 199, run) + f"\n{{\n{after}"
        "\\unset -f builtin command\n"
        "case ${ANYSHELL_SET-} in '') ;; *) \\builtin trap - DEBUG; \\builtin shopt -u extdebug\n"
        "case $ANYSHELL_SET in *E*) \\builtin set -E;; esac; case $ANYSHELL_SET in *e*) \\builtin set -e;; esac;; esac\n"
        f"\\builtin unset {frame.mark}\n"
        + (f"{speak._variables(frame, 199)}\n" if frame.variables else "")
        + f"{speak._tell(frame)}\n\\builtin unset ANYSHELL_STATUS ANYSHELL_SET ANYSHELL_FIRST ANYSHELL_LAST\n}} 2>/dev/null\n"
    )


_HIDE_EXEC = (
    "{ ! \\builtin declare -F exec || "
    "{ ANYSHELL_EXEC=$(\\builtin declare -f exec); \\builtin unset -f exec; }; }"
)
"""``builtin`` cannot call bash's exec so that redirections last: a function of that name is put away for a moment."""

_SHOW_EXEC = (
    'case ${ANYSHELL_EXEC-} in ?*) \\builtin eval "$ANYSHELL_EXEC"; \\builtin unset ANYSHELL_EXEC;; esac'
)


def _run_zsh(speak: Conversation, frame: Frame) -> str:
    source = f"\\builtin . {speak._path('command')} 8>&-"
    if frame.status:
        source = f"\\builtin . {speak._path('status')} || {source}"
    # One compound command, which is read whole before it is run: a subshell of the text sets the place back, when it ends,
    # from which this file is read on, and what follows would be run twice.
    return (
        f"{{\n{speak._head(frame, 8, 'x')}\n"
        + speak._guarded(
            frame,
            8,
            f"{{ {source}; ANYSHELL_STATUS={speak._number(frame)}$? }} {speak._input(frame)} {speak._output(frame)}",
        )
        + "\n"
        "{\n\\unset -f builtin command || :\n"
        "(( ! ${+ANYSHELL_SET} )) || \\builtin unset -f TRAPDEBUG\n"
        f"\\builtin unset {frame.mark}\n"
        + (f"{speak._variables(frame, 8)}\n" if frame.variables else "")
        + f"{speak._tell(frame)}\n\\builtin unset ANYSHELL_STATUS ANYSHELL_SET ANYSHELL_FIRST ANYSHELL_LAST\n}} 2>/dev/null\n}}\n"
    )


def _run_sh(speak: Conversation, frame: Frame) -> str:
    function = f"anyshell_run_on {frame.status}" if frame.status else "anyshell_run"
    # exec's redirections, so that an EXIT trap prints to them too.
    run = f"\\exec {speak._output(frame)}; {function} {speak._input(frame)}; \\exec >/dev/null 2>&1 9>&-"
    return (
        f"{speak._head(frame, 8, 'w')}\n" + speak._guarded(frame, 8, run) + "\n"
        "{\n\\unset -f command\n"
        f"\\unset {frame.mark}\n"
        + (f"{speak._variables(frame, 8)}\n" if frame.variables else "")
        + f"{speak._tell(frame)}\n\\unset ANYSHELL_STATUS ANYSHELL_SET ANYSHELL_FIRST ANYSHELL_LAST\n}} 2>/dev/null\n"
    )


_RUN: dict[ShellKind, Callable[[Conversation, Frame], str]] = {
    "bash": _run_bash,
    "zsh": _run_zsh,
    "sh": _run_sh,
}
