"""The program for a persistent shell, which runs one text after another and reports the end of each.

The shell reads its own input line by line. For each command, a line tells the shell to source a text of anyshell. That text
sources ``command``, a file with only the caller's text (except in zsh, see `Conversation.text`): so an unclosed quote or
here-document ends with the file. The command's output goes to a named pipe of its own. The report of its end goes to the
shell's original stderr, which no command inherits.

Interrupting: SIGVTALRM, which programs of a shell hardly use, runs a trap of anyshell before the next command of a text
begins. From then on no part of the text runs, and the shell is back at its input with its whole state:

* bash: a DEBUG trap under ``extdebug`` makes it return from every function and file (bash(1), ``shopt``, extdebug, 3).
* zsh: a trap function that returns non-zero aborts the running command, a DEBUG trap of that kind every later one, at every
  level (zshmisc(1), Trap Functions).
* sh: the trap returns from its function or file, and has the signal sent once more before that, for the next level.

Where that is not sure, such as where a text has a DEBUG trap of its own, the trap kills the shell instead.

The shell reads more lines with each command. After some errors, such as in arithmetic, bash unwinds to its input, past every
file: the next line makes bash source the part after the text again. That part stores the end of the command. The last line
reports the end with a random word, which stands nowhere else, so the text cannot find it: nothing else ends a command. A
shell that reaches the last line without a stored end, or cannot report because the text took away the means, kills itself: no
command waits in vain. A shell reads its input byte by byte, which takes longer than all else. So while no text can have
redefined "builtin", bash gets only the last line, reports if no end is stored, and is sent the others then.

bash and zsh expand aliases of reserved words. So the lines have no reserved words, and the sourced text is one compound
command, read while aliases are off: in zsh, where a global alias can have any name, aliases are off between commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import session_texts
from .session_fork import FORKED, Fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyshell._types import ShellInfo, ShellKind

    from .frame import Frame
    from .posix import Shell

RESERVED = frozenset(
    f"ANYSHELL_{name}"
    for name in ("ALIASES", "EXEC", "FIRST", "LAST", "PID", "PWD", "REST", "SET", "STATUS", "TOLD", "TRACE")
)
"""The variables that control the shell; no caller can set them."""

_BOTH_ENDS = (196, 195, 194)  # no bound
"""The descriptors at which bash holds both ends of its pipes for a moment."""

LIFE_FD = {"bash": 197}
"""The descriptor of a command's output pipe in all processes that the command starts."""

_LIFE_FD = 9  # no bound
"""The descriptor of that pipe in a shell that accepts only single digits."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The conversation with one persistent shell.

    Args:
        shell: The kind of the shell.
        directory: The private directory on the host.
    """

    shell: Shell
    directory: str

    @property
    def life_fd(self) -> int:
        """The descriptor of a command's output pipe in all processes that the command starts."""
        return LIFE_FD.get(self.shell.kind, _LIFE_FD)

    @property
    def says_back(self) -> bool:
        """Whether the shell reports that it is back at its input: a command ends no earlier."""
        return True

    @property
    def unwinds_by_programs(self) -> bool:
        """Whether the shell starts a program for each function that it leaves after an interrupt."""
        return self.shell.kind == "sh"

    @property
    def skips_lines(self) -> bool:
        """Whether an interrupt at the end of a loop can make the shell skip every line until the next interrupt.

        zsh 5.9 then believes that it still has to leave a loop (``breaks`` in its ``dotrapargs()``).
        """
        return self.shell.kind == "zsh"

    @property
    def numbers_statuses(self) -> bool:
        """Whether a status begins with the number of its command: otherwise a readonly variable would stand for every status.

        In sh a readonly variable ends the shell, so sh needs no number.
        """
        return self.shell.kind != "sh"

    def argv(self, info: ShellInfo) -> tuple[str, ...]:
        """Return the argument list of the shell."""
        return (info.path, *self.shell.options, "-s")

    def begin(self, snapshot: str | None, word: str) -> str:
        """Return the first input of the shell, with the user's set-up file; `word` marks the shell's report on itself."""
        trap = self.shell.quote(_INTERRUPT_BASH.replace("DIRECTORY", self._path("")))
        begin = _ENOUGH.get(self.shell.kind, "").replace("WORD", word) + _BEGIN[self.shell.kind]
        begin = begin.replace("TRAP ", f"{trap} ").replace("DIRECTORY", self._path(""))
        loaded = begin if snapshot is None else f"{begin}{self.shell.load(snapshot)}\n"
        return loaded + (_WITHOUT_ALIASES["zsh"] if self.shell.kind == "zsh" else "")

    def fork(self, place: str) -> Fork | None:
        """Return the texts by which a fresh shell takes this shell's state; ``None`` where there are no such texts.

        Args:
            place: A name for the texts, unique among all forks.
        """
        return Fork(self.shell, f"{self.directory}/{place}") if self.shell.kind in FORKED else None

    def tell_pid(self) -> str:
        """Return the line that makes the shell report its pid."""
        kind = self.shell.kind
        return f"{_BUILTIN[kind]} printf '\\000shell %s\\000' $$ >&{_STATUS_FD[kind]}\n"

    def line(
        self, number: int, run: str = "", command: str | None = None, *, back: str, redefined: bool = True
    ) -> str:
        """Return the lines that make the shell run a command.

        Args:
            number: The number of the command.
            run: The text that `run` returned, if it was not written to the file that `run_file` names.
            command: The text of the command, if it was not written to the file ``command``.
            back: A word of letters and digits by which the shell reports that it is back at its input.
            redefined: As in the frame that `run` was given.
        """
        kind = self.shell.kind
        short = kind == "bash" and not redefined
        source = f"{_BUILTIN[kind]} \\. {self._path(self.run_file(number))}"
        last = f"{self._tell(back)}\n" if short else self.ask(back)
        if short and not run:
            return f"{source}\n{last}"  # the file discards an earlier stored end
        written = [(self.run_file(number), run)] if run else []
        if command is not None:
            written.append(("command", command))
        lines = [source]
        if kind == "sh":
            lines.append(f"anyshell_frame {_AT_HOME}")
        if written:
            # A text that could not be written whole must not run, and the text before must not run again.
            writes = " && ".join(
                f"{_BUILTIN[kind]} printf %s {self.shell.quote(text)} 2>/dev/null >|{self._path(name)}"
                for name, text in written
            )
            full = f"{writes} || ANYSHELL_TOLD='{number} full '"
            lines = [full, *(f"{_IF_TOLD[kind]}||{line}" for line in lines)]
        if kind == "bash" and redefined:
            lines.append(self._unwound(number))
        # Comes first: the text of the command before may have removed that command's last line.
        return "ANYSHELL_TOLD=;" + "".join(f"{line}\n" for line in lines) + last

    def again(self, number: int, back: str) -> str:
        """Return the lines for a shell that is back without a stored end; empty for a shell that only reports after a text."""
        return f"{self._unwound(number)}\n{self.ask(back)}" if self.shell.kind == "bash" else ""

    def _unwound(self, number: int) -> str:
        return f"{_IF_TOLD['bash']}||\\. {self._path(self.run_file(number))} {_UNWOUND}"

    def ask(self, back: str) -> str:
        """Return the last line, which makes the shell report how a command ended, or kill itself."""
        return f"{_IF_TOLD[self.shell.kind]}&&{self._tell(back)}\n"

    def _tell(self, back: str) -> str:
        """Return the text that reports how a command ended."""
        # The NUL separates the report from earlier output. The backslash keeps zsh's global aliases from the descriptor.
        kind = self.shell.kind
        backslash = "" if kind == "bash" else "\\"
        tell = f"{_BUILTIN[kind]} printf '\\0back {back} %s\\0' \"$ANYSHELL_TOLD\""
        return f'{tell}>&{backslash}{_STATUS_FD[kind]}||\\kill -9 "$$"'

    def text(self, text: str) -> tuple[str, bool]:
        """Return the contents of the file ``command``, and whether a status 126 without a number is an error of zsh's own.

        By such an error zsh leaves the file, and gives 126 in place of the exit code; a program that cannot be run also has
        126. A line behind the text, which runs in the second case alone, stores the number. A text that could take the line
        into a here-document gets no such line, nor does a text that returns the value of an expression.
        """
        if self.shell.kind != "zsh" or session_texts.takes_line(text):
            return text, False
        if session_texts.is_unfinished(text):
            return text, True
        line_feed = "\n\n" if text.endswith("\\") else "\n"
        return f"{text}{line_feed}ANYSHELL_STATUS=$?\n", True

    @staticmethod
    def run_file(number: int) -> str:
        """Return the name of the file for the text that `run` returns.

        Two files take turns: a shell that has reported the end of a command may not have read the file to its end yet.
        """
        return f"run{number % 2}"

    def run(self, frame: Frame) -> str:
        """Return the text that runs the file ``command`` and reports how it ended."""
        return _RUN[self.shell.kind](self, frame)

    def interrupt(self, number: int) -> str:
        """Return no text: a signal interrupts the shell."""
        return ""

    def exit_code(self, answer: int) -> int:
        """Return the exit code of a command, given the number that the shell has reported: a function may return any number."""
        return answer & 0xFF

    def stays_interruptible(self, text: str) -> bool:
        """Return whether a shell can still be interrupted after a text, as far as the text shows that."""
        return session_texts.stays_interruptible(text, self.shell.kind)

    def needs_care(self, text: str) -> bool:
        """Return whether a shell may have a trap for EXIT or DEBUG, or trace its commands, after a text."""
        return session_texts.needs_care(text)

    def redefines(self, text: str) -> bool:
        """Return whether words of anyshell may have another meaning after a text. After a text that needs care, words may too."""
        return "builtin" in text or "alias" in text or "ALIAS" in text

    def _path(self, name: str) -> str:
        return self.shell.quote(f"{self.directory}/{name}")

    def _head(self, frame: Frame, status_fd: int, limit: str) -> str:
        """Return the part before the command: its mark and tag, and the report of the variables."""
        builtin = _BUILTIN[self.shell.kind]
        lines = [f"{builtin} export {frame.mark}=1"]
        if frame.pids:
            lines.append(self._last_pid("ANYSHELL_FIRST"))
        if frame.tag is not None:
            # busybox may not know the option. The shell's stderr is /dev/null here, unless a text has changed that.
            quiet = "" if self.shell.kind == "bash" and not frame.careful else " 2>/dev/null"
            lines.append(f"{builtin} ulimit -S -{limit} {frame.tag}{quiet} || :")
        if frame.variables:
            lines.append(self._variables(frame, status_fd))
        lines += [f"{builtin} unset -v {name}" for name, value in frame.env.items() if value is None]
        if exports := [f"{name}={value}" for name, value in frame.env.items() if value is not None]:
            lines.append(f"{builtin} export {self.shell.join(exports)}")
        if frame.status and self.shell.kind != "sh":
            # The file sets $? without a function or a subshell. An interrupted printf of zsh (5.9) writes the line twice.
            lines.append(f"{builtin} printf 'return %s\\n' {frame.status} >|{self._path('status')}")
        return "\n".join(lines)

    def _failing(self, frame: Frame) -> str:
        """Return a command that fails with the earlier text's status: with 1 if the status file was not written (full disk)."""
        return f"\\builtin . {self._path('status')} && ! \\builtin : || " if frame.status else ""

    def _guarded(self, frame: Frame, status_fd: int, run: str) -> str:
        """Return the command, for a shell that can enter the requested directory; otherwise a report for the waiting caller."""
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
        builtin = _BUILTIN[self.shell.kind]
        told = (
            f"{builtin} printf '\\000variables {frame.number}\\000'",
            "\\command -p env -0",
            f"{builtin} printf '\\000'",
        )
        # Each command has its own redirection, since a DEBUG trap prints to the output of a group.
        return f"{{ {'; '.join(f'{each} >&{status_fd}' for each in told)}; }} 2>/dev/null"

    def _last_pid(self, variable: str) -> str:
        """Return the text that stores the host's last pid, the last word of the variable (proc(5), /proc/loadavg)."""
        return f"{variable}=; {_BUILTIN[self.shell.kind]} read -r {variable} 2>/dev/null </proc/loadavg || :"

    def _input(self, frame: Frame) -> str:
        return "</dev/null" if frame.stdin is None else self._opened(frame, "0<", frame.stdin)

    def _output(self, frame: Frame) -> str:
        stderr = "2>&1" if frame.stderr is None else self._opened(frame, "2>|", frame.stderr)
        return f"{self._opened(frame, '1>|', frame.stdout)} {stderr} {self.life_fd}>&1"

    def _opened(self, frame: Frame, how: str, pipe: str) -> str:
        """Return the redirection to a pipe. Opened at both ends first, the pipe does not wait for another process (fifo(7))."""
        path = self.shell.quote(pipe)
        if not frame.alone or self.shell.kind == "bash":
            return f"{how}{path}"
        if self.shell.kind == "zsh":  # zsh copies to both when a descriptor is redirected twice
            return f"{self.life_fd}<>{path} {how}{path} {self.life_fd}>&-"
        return f"{how[0]}<>{path} {how}{path}"

    def _seldom(self, frame: Frame, text: str) -> str:
        """Return a part that bash runs seldom, between quotes: bash takes far longer to parse text outside quotes.

        bash parses the quoted part when it runs, so no alias may be able to get into it.
        """
        return text if frame.redefined else f"\\builtin eval {self.shell.literal(text)}"

    def _killed(self, frame: Frame) -> str:
        """Return the text that kills a shell which cannot go on.

        A status is missing when the text's file or pipe was missing. A status is also missing when a variable of anyshell
        cannot be set, or a function of anyshell is gone: only then the shell cannot go on.
        """
        builtin = _BUILTIN[self.shell.kind]
        return (
            f'case ${{ANYSHELL_STATUS-}}${{ANYSHELL_SET-}} in "") {builtin} test -p {self.shell.quote(frame.stdout)} && '
            f'{builtin} kill -s KILL "$$";; esac'
        )

    def _told(self, frame: Frame) -> str:
        """Return the text that stores the end of the command and the shell's directory, for the last line's report.

        A shell that reads no more lines, because of "set -t", reports at once.
        """
        kind = self.shell.kind
        builtin = _BUILTIN[kind]
        words = "${ANYSHELL_STATUS:-x} ${ANYSHELL_SET:+i}"
        if frame.pids:
            words += " ${ANYSHELL_FIRST##* } ${ANYSHELL_LAST##* }"
        # PWD is a variable like any other, and the directory may have another name now than the shell remembers.
        there = '\\[ . -ef "${PWD-}" ]' if kind == "sh" else "[[ ${PWD-} == /* && . -ef $PWD ]]"
        # One program, since a DEBUG trap may print before each command; the dot protects line feeds at the end.
        tell_now = f"\ncase $- in *t*) {builtin} printf '\\0ended %s\\0' \"$ANYSHELL_TOLD\" >&{_STATUS_FD[kind]};; esac"
        asked = "\\command -p env sh -c 'printf //x; pwd -P && printf .'"
        ask = (
            f'ANYSHELL_PWD=$({asked}); ANYSHELL_PWD="${{ANYSHELL_PWD##*//x}}"; '
            'case $ANYSHELL_PWD in /*.) ANYSHELL_PWD="${ANYSHELL_PWD%??}";; *) ANYSHELL_PWD=${PWD-};; esac'
        )
        if kind == "bash":
            ask = self._seldom(frame, ask)
        return (
            (f"{self._last_pid('ANYSHELL_LAST')}\n" if frame.pids else "")
            + ("" if kind == "bash" else f"{self._killed(frame)}\n")
            + f"{builtin} unset ANYSHELL_TOLD ANYSHELL_PWD\n"
            f"if {there}; then ANYSHELL_PWD=$PWD; else {ask}; fi\n"
            + _SET_TOLD[kind].format(f"{frame.number} {words}")
            + (tell_now if kind == "zsh" or (kind == "bash" and frame.redefined) else "")
        )


_AT_HOME = "anyshell:shell"
"""The first positional parameter of sh while no text runs."""

_UNWOUND = "anyshell:unwound"
"""The argument of bash's file after bash unwound to its input: the text must not run again, but its end must be stored."""

_BUILTIN: dict[ShellKind, str] = {"bash": "\\builtin", "zsh": "\\builtin", "sh": "\\command"}

_STATUS_FD: dict[ShellKind, int] = {"bash": 199, "zsh": 8, "sh": 8}
"""The descriptor on which the shell reports the end of a command; closed in all programs of a command."""

# A function that replaced "builtin" sets no variable here. A tab, since bash and zsh print line by line.
_PRINT_TOLD = '\\builtin printf -v ANYSHELL_TOLD \'%s\\t%s\' "{}" "$ANYSHELL_PWD"'

_SET_TOLD: dict[ShellKind, str] = {
    "bash": _PRINT_TOLD,
    "zsh": _PRINT_TOLD,
    "sh": 'ANYSHELL_TOLD="{}\t$ANYSHELL_PWD"',
}

_IF_TOLD: dict[ShellKind, str] = {
    # No alias and no function can replace this.
    "bash": "((${ANYSHELL_TOLD:+1}))",
    "zsh": "((${ANYSHELL_TOLD:+1}))",
    "sh": '\\[ "${ANYSHELL_TOLD-}" ]',
}
"""The conditions that a command's end is stored. Short, since a shell reads its input byte by byte."""

_WITHOUT_ALIASES: dict[ShellKind, str] = {
    "bash": "\\builtin shopt -q expand_aliases || ANYSHELL_ALIASES=off; \\builtin shopt -u expand_aliases\n",
    # Between commands: a global alias may have any name, also one with a backslash before it.
    "zsh": "[[ -o aliases ]] || ANYSHELL_ALIASES=off; \\builtin setopt no_aliases\n",
}
"""A line after which words are read literally."""

_WITH_ALIASES: dict[ShellKind, str] = {
    "bash": "case ${ANYSHELL_ALIASES-} in ?*) \\builtin unset ANYSHELL_ALIASES;; *) \\builtin shopt -s expand_aliases;; esac",
    "zsh": "case ${ANYSHELL_ALIASES-} in ?*) \\builtin unset ANYSHELL_ALIASES;; *) \\builtin setopt aliases;; esac",
}
"""The text that turns alias expansion on again, if it was on before."""

_KEEP: dict[ShellKind, str] = {
    "bash": "\\builtin enable . printf exec",
    "zsh": "\\builtin enable -r case esac if then else fi '{' '}' '[[' || :; \\builtin enable . printf return || :; "
    "(( ${FUNCNEST:-1} )) || FUNCNEST=1",
}
"""The text that restores the builtins and words with which the next command begins."""

_INTERRUPT_BASH = (
    f"{_WITHOUT_ALIASES['bash']}{_WITH_ALIASES['bash']}; "
    "if ((${#BASH_SOURCE[@]} > 1)) && [[ ! ${ANYSHELL_SET-} ]]; then "
    # Not by a substitution: SIGINT may end that, and then bash itself. The file was read whole before the text began.
    "\\builtin trap -p DEBUG 2>/dev/null >|DIRECTORYcommand; "
    '[[ :$BASHOPTS: == *:extdebug:* || $- == *T* || -s DIRECTORYcommand ]] && \\builtin kill -s KILL "$$"; '
    "ANYSHELL_SET=x$-; \\builtin set +e; "
    # A status of 2 makes bash return (and without a function, only a wrong use of a builtin gives a 2).
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
    # The signal is sent while the argument of "return" is evaluated: sent earlier, it would arrive too early. The sending
    # process belongs to the text, and may be asked to end meanwhile.
    f'case ${{1-}} in {_AT_HOME}) ;; *) ANYSHELL_SET=1; return "$(kill -s VTALRM "$$")130" ;; esac'
)

_READ_PID = "ANYSHELL_PID=; \\command read -r ANYSHELL_PID 2>/dev/null </proc/self/stat || :; ANYSHELL_PID=${ANYSHELL_PID%% *}"
"""Stores which process this is: ``$$`` is the shell's pid in a subshell, too."""

_READ_PID_QUOTED = _READ_PID.replace("$", "\\$")
"""The reading of a pid, for use between double quotes."""

_BEGIN: dict[ShellKind, str] = {
    "bash": "exec 199>&2 2>/dev/null >/dev/null; shopt -s expand_aliases; trap TRAP VTALRM\n",
    "zsh": f"exec 8>&2 2>/dev/null >/dev/null\n{_INTERRUPT_ZSH}",
    "sh": (
        f"exec 8>&2 2>/dev/null >/dev/null; set -- {_AT_HOME}; trap '{_INTERRUPT_SH}' VTALRM\n"
        "anyshell_run() { \\command . DIRECTORYcommand 8>&- && ANYSHELL_STATUS=0 || ANYSHELL_STATUS=$?; anyshell_here; }\n"
        'anyshell_status() { return "$1"; }\n'
        'anyshell_run_on() { ANYSHELL_STATUS=$1; shift; anyshell_status "$ANYSHELL_STATUS" || '
        "\\command . DIRECTORYcommand 8>&- && ANYSHELL_STATUS=0 || ANYSHELL_STATUS=$?; anyshell_here; }\n"
        # After an error in a subshell, busybox leaves the file there, too: that process would read the shell's input.
        f'{_READ_PID}; eval "anyshell_here() {{ \\unset -f command; {_READ_PID_QUOTED}; '
        "case \\${ANYSHELL_PID:-'$ANYSHELL_PID'} in '$ANYSHELL_PID') ;; "
        '*) \\command exit \\"\\$ANYSHELL_STATUS\\";; esac; }"\n'
    ),
}
"""The redirections of the shell's own descriptors, and the trap. No command inherits the shell's original stderr."""


_ENOUGH: dict[ShellKind, str] = {
    "bash": "{ exec 199>&2; } 2>/dev/null || "
    "{ \\builtin printf '\\000few WORD %s\\000' \"$(\\builtin ulimit -n)\" >&2; exit 1; }\n"
}
"""The report and the end of a shell on a host that allows too few descriptors."""


def _run_bash(conversation: Conversation, frame: Frame) -> str:
    output = conversation._output(frame)
    source = f"\\builtin . {conversation._path('command')} 199>&-"
    if frame.careful:
        source += f" {output.rpartition(' ')[0]}"
    # "!" keeps the file as a whole from an ERR trap and errexit; inside the file both work as ever.
    source = f"{conversation._failing(frame)}! {source}; ANYSHELL_STATUS={conversation._number(frame)}${{PIPESTATUS[0]}}"
    undo = ""
    if frame.careful:
        # exec redirects the output, so an EXIT trap prints there too. The input stays: the shell reads commands from it.
        # The group keeps traces and a DEBUG trap's prints for our commands out of the output; so the text's output is
        # opened again, by name: a copy of a high descriptor would make bash keep others next to it.
        undo = f"{_HIDE_EXEC}; \\exec >/dev/null 2>&1 197>&-"
        opens, closes = _both_ends(conversation, frame)
        run = (
            f"{opens}{_HIDE_EXEC} && \\exec {output} && {{ {closes}{_SHOW_EXEC}; {source}; "
            # The next text is not traced either.
            f"case $- in *x*) ANYSHELL_TRACE=1; \\builtin set +x;; esac; {_HIDE_EXEC}; }} "
            f"{conversation._input(frame)} >/dev/null 2>&1; "
            "\\exec >/dev/null 2>&1 197>&-"
        )
        after = f"{_SHOW_EXEC}\ncase ${{ANYSHELL_TRACE-}} in ?*) \\builtin unset ANYSHELL_TRACE; \\builtin set -x;; esac\n"
    else:
        opens, closes = _both_ends(conversation, frame)
        run, after = f"{opens}{{ {closes}{source}; }} {conversation._input(frame)} {output}", ""
    aliases_off, aliases_on = (
        (_WITHOUT_ALIASES["bash"], f"{_WITH_ALIASES['bash']}\n") if frame.redefined else ("", "")
    )
    back = conversation._seldom(frame, f"{_SET_BACK}{conversation._killed(frame)}\n\\builtin :")
    return (
        # After an error, the functions may still be the text's.
        f"ANYSHELL_TOLD=\n\\unset -f builtin command\n{aliases_off}{{\n{'' if frame.own else aliases_on}"
        f"case ${{1-}} in {_UNWOUND}) ANYSHELL_STATUS={conversation._number(frame)}1\n{undo};;\n"
        f"*)\n{conversation._head(frame, 199, 'x')}\n{conversation._guarded(frame, 199, run)};;\nesac\n"
        f"{{\n{after}"
        f"\\unset -f builtin command\n{_KEEP['bash']}\n"
        f"case ${{ANYSHELL_SET:+i}}:${{ANYSHELL_STATUS-}} in :*:2|:|i*) {back};; esac\n"
        f"\\builtin unset {frame.mark}\n"
        + (f"{conversation._variables(frame, 199)}\n" if frame.variables else "")
        + f"{conversation._told(frame)}\n\\builtin unset ANYSHELL_STATUS ANYSHELL_SET ANYSHELL_FIRST ANYSHELL_LAST ANYSHELL_PWD\n}}{' 2>/dev/null' if frame.careful else ''}\n"
        + f"{aliases_on if frame.own else ''}}}\n"
    )


_SET_BACK = (
    # After an unclosed "[[", bash knows no "[[" until another syntax error resets its parser.
    'case ${ANYSHELL_STATUS-} in *:2) \\command eval ")" || \\builtin :;; esac\n'
    'case ${ANYSHELL_SET-} in "") ;; *) \\builtin trap - DEBUG; \\builtin shopt -u extdebug\n'
    "case $ANYSHELL_SET in *E*) \\builtin set -E;; esac; case $ANYSHELL_SET in *e*) \\builtin set -e;; esac;; esac\n"
)
"""The text that restores in bash what an interrupt or a syntax error has taken away."""

_HIDE_EXEC = (
    "{ ! \\builtin declare -F exec || "
    "{ ANYSHELL_EXEC=$(\\builtin declare -f exec); \\builtin unset -f exec; }; }"
)
"""``builtin`` cannot call bash's exec so that redirections last: a function of that name is removed for a moment."""

_SHOW_EXEC = (
    'case ${ANYSHELL_EXEC-} in ?*) \\builtin eval "$ANYSHELL_EXEC"; \\builtin unset ANYSHELL_EXEC;; esac'
)


def _both_ends(conversation: Conversation, frame: Frame) -> tuple[str, str]:
    """Return the texts that open the pipes at both ends in bash, and close the unneeded ends.

    The texts use exec: of a descriptor that another command redirects, bash keeps a copy until that command has ended.
    """
    if not frame.alone:
        return "", ""
    pipes = [pipe for pipe in (frame.stdout, frame.stderr, frame.stdin) if pipe is not None]
    opens = " ".join(
        f"{fd}<>{conversation.shell.quote(pipe)}" for fd, pipe in zip(_BOTH_ENDS, pipes, strict=False)
    )
    closes = " ".join(f"{fd}>&-" for fd, _ in zip(_BOTH_ENDS, pipes, strict=False))
    if not frame.redefined:
        return f"\\exec {opens}; ", f"\\exec {closes}; "
    return f"{_HIDE_EXEC}; \\exec {opens}; ", f"\\exec {closes}; {_SHOW_EXEC}; "


def _run_zsh(conversation: Conversation, frame: Frame) -> str:
    source = f"{conversation._failing(frame)}\\builtin . {conversation._path('command')} 8>&-"
    number = conversation._number(frame)
    # Without the line behind the text, the status has a letter.
    status = f"ANYSHELL_STATUS={number}" + (
        "${ANYSHELL_STATUS:-e$?} ANYSHELL_REST=${_-}" if frame.marked else "$?"
    )
    after = (
        # "return" also ends a file before that line; then the last word that has run is "return", or the returned value.
        f"case ${{ANYSHELL_STATUS-}}:$ANYSHELL_REST in {number}e126:return|{number}e126:126) ANYSHELL_STATUS={number}126;; "
        f"{number}e126:*) ANYSHELL_STATUS={number}1;; "
        f"{number}e*) ANYSHELL_STATUS={number}${{ANYSHELL_STATUS#*e}};; esac\n"
    )
    # One compound command, which is read whole before it runs: when a subshell of the text ends, it resets the read
    # position in this file, and the rest would run twice.
    return (
        # "always", since under err_return a failing text makes this file return, too. Not around the text alone: its
        # return value would trigger a ZERR trap again.
        f"{{\n{'' if frame.own else _WITH_ALIASES['zsh']}\n{conversation._head(frame, 8, 'x')}\n"
        + conversation._guarded(
            frame,
            8,
            f"{{ ANYSHELL_REST=x; {source}; {status} }} {conversation._input(frame)} {conversation._output(frame)}",
        )
        + "\n} always {\n"
        f"case ${{ANYSHELL_STATUS-}}${{ANYSHELL_SET-}}:${{ANYSHELL_REST-}} in :?*) ANYSHELL_STATUS={number}$?;; esac\n"
        f"{{\n\\unset -f builtin command || :\n{_KEEP['zsh']}\n"
        "(( ! ${+ANYSHELL_SET} )) || \\builtin unset -f TRAPDEBUG\n"
        + (after if frame.marked else "")
        + f"\\builtin unset {frame.mark}\n"
        + (f"{conversation._variables(frame, 8)}\n" if frame.variables else "")
        + f"{conversation._told(frame)}\n"
        "\\builtin unset ANYSHELL_STATUS ANYSHELL_SET ANYSHELL_FIRST ANYSHELL_LAST ANYSHELL_PWD ANYSHELL_REST\n"
        f"{'' if frame.own else _WITHOUT_ALIASES['zsh']}}} 2>/dev/null\n}}\n"
    )


def _run_sh(conversation: Conversation, frame: Frame) -> str:
    function = f"anyshell_run_on {frame.status}" if frame.status else "anyshell_run"
    # exec redirects the output, so an EXIT trap prints there too.
    run = f"\\exec {conversation._output(frame)}; {function} {conversation._input(frame)}; \\exec >/dev/null 2>&1 9>&-"
    # A function, so only the text's file is being read while the text runs: after an error in a subshell, busybox returns
    # to the input from the time when "command" began, which is gone in that process unless it is the shell's own.
    return (
        f"anyshell_frame() {{\n{conversation._head(frame, 8, 'w')}\n"
        + conversation._guarded(frame, 8, run)
        + "\n"
        "{\n\\unset -f command anyshell_frame\n"
        f"\\unset {frame.mark}\n"
        + (f"{conversation._variables(frame, 8)}\n" if frame.variables else "")
        + f"{conversation._told(frame)}\n"
        "\\unset ANYSHELL_STATUS ANYSHELL_SET ANYSHELL_FIRST ANYSHELL_LAST ANYSHELL_PWD ANYSHELL_PID\n} 2>/dev/null\n}\n"
    )


_RUN: dict[ShellKind, Callable[[Conversation, Frame], str]] = {
    "bash": _run_bash,
    "zsh": _run_zsh,
    "sh": _run_sh,
}
