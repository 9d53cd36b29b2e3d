"""The program for a persistent shell, which runs one text after another and tells the end of each.

The shell reads its own input line by line. For each command it is told to source a text of anyshell, which sources
``command``, a file that holds the caller's text and nothing else (but for zsh, see `Conversation.text`): so quotes and heredocs that are never closed end with
the file. What the command prints goes to a named pipe of its own; how it ended goes to the stream that was the shell's
standard error when it started, and that no command has.

Interrupting: SIGVTALRM, which programs of a shell hardly use, reaches a trap of anyshell before the next command of a text
begins. From there on nothing of the text runs any more, and the shell is back at its input, with all that it knew:

* bash: a DEBUG trap under ``extdebug`` makes it return from every function and file (bash(1), ``shopt``, extdebug, 3).
* zsh: a trap function that returns non-zero aborts what runs (zshmisc(1), Trap Functions), a DEBUG trap of that kind
  whatever comes after, at every level.
* sh: the trap returns from its function or file, and has the signal sent once more before that, for the next level.

Where that cannot be sure, such as where a text has a DEBUG trap of its own, the trap kills the shell instead.

The shell reads more lines with each command. bash unwinds to its input by some errors, such as in arithmetic, past every
file: the next line has it source what stands after the text once more. That takes down how the command ended, and the last
line says it, with a word that stands nowhere else, and so not where the text can find it: nothing else ends a command. A
shell that comes to the last line with nothing taken down, or that cannot say it, since the text took from it what it does
that with, kills itself: no command waits in vain. A shell reads its input byte by byte, which takes longer than all else: so as
long as no text can have given another meaning to "builtin", bash has the last line alone, says that it has nothing to say,
and is sent the others then.

bash and zsh expand aliases of reserved words. So the lines have none, and what they source is one compound command, read
while aliases are off: in zsh, where a global alias can have any name, they are off between commands.
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
"""Variables that the shell is led by; no caller can set them."""

_BOTH_ENDS = (196, 195, 194)  # no bound
"""The descriptors at which bash has its pipes at both ends for a moment."""

LIFE_FD = {"bash": 197}
"""The descriptor by which everything that a command starts has the pipe that it prints to."""

_LIFE_FD = 9  # no bound
"""The descriptor of the life pipe in a shell that knows single digits alone."""


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
    def says_back(self) -> bool:
        """Whether the shell says that it is back at its input, and a command has not ended before."""
        return True

    @property
    def unwinds_by_programs(self) -> bool:
        """Whether it starts a program for each function that it leaves after an interrupt."""
        return self.shell.kind == "sh"

    @property
    def skips_lines(self) -> bool:
        """Whether an interrupt at the end of a loop can have the shell skip every line until the next one.

        zsh 5.9 takes a loop for one that is still to be left then (``breaks`` in its ``dotrapargs()``).
        """
        return self.shell.kind == "zsh"

    @property
    def numbers_statuses(self) -> bool:
        """Whether a status begins with the number of its command: a readonly variable would otherwise stand for all.

        It ends sh, which needs none.
        """
        return self.shell.kind != "sh"

    def argv(self, info: ShellInfo) -> tuple[str, ...]:
        """The argument list of the shell."""
        return (info.path, *self.shell.options, "-s")

    def begin(self, snapshot: str | None, word: str) -> str:
        """The first input of the shell, with the file of the user's set-up; `word` stands before the shell's report on itself."""
        trap = self.shell.quote(_INTERRUPT_BASH.replace("DIRECTORY", self._path("")))
        begin = _ENOUGH.get(self.shell.kind, "").replace("WORD", word) + _BEGIN[self.shell.kind]
        begin = begin.replace("TRAP ", f"{trap} ").replace("DIRECTORY", self._path(""))
        loaded = begin if snapshot is None else f"{begin}{self.shell.load(snapshot)}\n"
        return loaded + (_WITHOUT_ALIASES["zsh"] if self.shell.kind == "zsh" else "")

    def fork(self, place: str) -> Fork | None:
        """The texts by which a fresh shell becomes what this one is; ``None`` where there are none.

        Args:
            place: A name for them, which stands in no other.
        """
        return Fork(self.shell, f"{self.directory}/{place}") if self.shell.kind in FORKED else None

    def tell_pid(self) -> str:
        """The line that has the shell say its pid."""
        kind = self.shell.kind
        return f"{_BUILTIN[kind]} printf '\\000shell %s\\000' $$ >&{_STATUS_FD[kind]}\n"

    def line(
        self, number: int, run: str = "", command: str | None = None, *, back: str, redefined: bool = True
    ) -> str:
        """The lines that have the shell run a command.

        Args:
            number: Its number.
            run: The text that `run` returned, if it was not written to the file that `run_file` names.
            command: The text of the command, if it was not written to the file ``command``.
            back: A word of letters and digits by which the shell says that it is back at its input.
            redefined: As in the frame that `run` was given.
        """
        kind = self.shell.kind
        short = kind == "bash" and not redefined
        source = f"{_BUILTIN[kind]} \\. {self._path(self.run_file(number))}"
        last = f"{self._tell(back)}\n" if short else self.ask(back)
        if short and not run:
            return f"{source}\n{last}"  # the file forgets what was told before
        written = [(self.run_file(number), run)] if run else []
        if command is not None:
            written.append(("command", command))
        lines = [source]
        if kind == "sh":
            lines.append(f"anyshell_frame {_AT_HOME}")
        if written:
            # A text that could not be written whole must not run, and the one before must not run again.
            writes = " && ".join(
                f"{_BUILTIN[kind]} printf %s {self.shell.quote(text)} 2>/dev/null >|{self._path(name)}"
                for name, text in written
            )
            full = f"{writes} || ANYSHELL_TOLD='{number} full '"
            lines = [full, *(f"{_IF_TOLD[kind]}||{line}" for line in lines)]
        if kind == "bash" and redefined:
            lines.append(self._unwound(number))
        # First: the last line of the command before may have been taken away by its text.
        return "ANYSHELL_TOLD=;" + "".join(f"{line}\n" for line in lines) + last

    def again(self, number: int, back: str) -> str:
        """The lines for a shell that is back at its input with nothing to say; empty where it says so after no text."""
        return f"{self._unwound(number)}\n{self.ask(back)}" if self.shell.kind == "bash" else ""

    def _unwound(self, number: int) -> str:
        return f"{_IF_TOLD['bash']}||\\. {self._path(self.run_file(number))} {_UNWOUND}"

    def ask(self, back: str) -> str:
        """The last line, which has the shell say how a command ended, or kill itself."""
        return f"{_IF_TOLD[self.shell.kind]}&&{self._tell(back)}\n"

    def _tell(self, back: str) -> str:
        """The text that tells how a command ended."""
        # The NUL parts it from what got there before. The backslash keeps a global alias of zsh from the descriptor.
        kind = self.shell.kind
        backslash = "" if kind == "bash" else "\\"
        tell = f"{_BUILTIN[kind]} printf '\\0back {back} %s\\0' \"$ANYSHELL_TOLD\""
        return f'{tell}>&{backslash}{_STATUS_FD[kind]}||\\kill -9 "$$"'

    def text(self, text: str) -> tuple[str, bool]:
        """The contents of the file ``command`` for a text, and whether 126 without a number is an error of zsh's own.

        By such an error zsh leaves the file, and says 126 in place of its exit code; a program that cannot be run has 126,
        too. A line behind the text, which is run in the second case alone, takes the number down. A text that could take the
        line into a here-document gets no such line, nor one that returns what an expression gives.
        """
        if self.shell.kind != "zsh" or session_texts.takes_line(text):
            return text, False
        if session_texts.is_unfinished(text):
            return text, True
        line_feed = "\n\n" if text.endswith("\\") else "\n"
        return f"{text}{line_feed}ANYSHELL_STATUS=$?\n", True

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
        """Return no text: a signal interrupts the shell."""
        return ""

    def exit_code(self, answer: int) -> int:
        """The exit code of a command, of which the shell has said a number: some let a function return anything."""
        return answer & 0xFF

    def stays_interruptible(self, text: str) -> bool:
        """Whether a shell can be interrupted still that has run a text, as far as the text shows that."""
        return session_texts.stays_interruptible(text, self.shell.kind)

    def needs_care(self, text: str) -> bool:
        """Whether a shell that has run a text may have a trap for EXIT or DEBUG, or trace what it does."""
        return session_texts.needs_care(text)

    def redefines(self, text: str) -> bool:
        """Whether words of anyshell may mean another thing to a shell that has run a text; of what needs care, too, they may."""
        return "builtin" in text or "alias" in text or "ALIAS" in text

    def _path(self, name: str) -> str:
        return self.shell.quote(f"{self.directory}/{name}")

    def _head(self, frame: Frame, status_fd: int, limit: str) -> str:
        """Before the command: its mark and its tag, and the variables as they are."""
        builtin = _BUILTIN[self.shell.kind]
        lines = [f"{builtin} export {frame.mark}=1"]
        if frame.pids:
            lines.append(self._last_pid("ANYSHELL_FIRST"))
        if frame.tag is not None:
            # busybox may not know it. The stderr of a shell is /dev/null here, but for what a text has done to it.
            quiet = "" if self.shell.kind == "bash" and not frame.careful else " 2>/dev/null"
            lines.append(f"{builtin} ulimit -S -{limit} {frame.tag}{quiet} || :")
        if frame.variables:
            lines.append(self._variables(frame, status_fd))
        lines += [f"{builtin} unset -v {name}" for name, value in frame.env.items() if value is None]
        if exports := [f"{name}={value}" for name, value in frame.env.items() if value is not None]:
            lines.append(f"{builtin} export {self.shell.join(exports)}")
        if frame.status and self.shell.kind != "sh":
            # The file sets $? without a function or a subshell. An interrupted printf of zsh (5.9) writes it twice.
            lines.append(f"{builtin} printf 'return %s\\n' {frame.status} >|{self._path('status')}")
        return "\n".join(lines)

    def _failing(self, frame: Frame) -> str:
        """A command that fails with the status of the text before: with 1 where its file could not be written (full disk)."""
        return f"\\builtin . {self._path('status')} && ! \\builtin : || " if frame.status else ""

    def _guarded(self, frame: Frame, status_fd: int, run: str) -> str:
        """The command, if the shell can be where it is to run; otherwise the waiting caller is told."""
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
        # Each by itself, since a DEBUG trap prints to what a group has.
        return f"{{ {'; '.join(f'{each} >&{status_fd}' for each in told)}; }} 2>/dev/null"

    def _last_pid(self, variable: str) -> str:
        """Take down which pid the host gave last, behind the last space of that variable (proc(5), /proc/loadavg)."""
        return f"{variable}=; {_BUILTIN[self.shell.kind]} read -r {variable} 2>/dev/null </proc/loadavg || :"

    def _input(self, frame: Frame) -> str:
        return "</dev/null" if frame.stdin is None else self._opened(frame, "0<", frame.stdin)

    def _output(self, frame: Frame) -> str:
        stderr = "2>&1" if frame.stderr is None else self._opened(frame, "2>|", frame.stderr)
        return f"{self._opened(frame, '1>|', frame.stdout)} {stderr} {self.life_fd}>&1"

    def _opened(self, frame: Frame, how: str, pipe: str) -> str:
        """The redirection to a pipe. Opened at both ends first, it does not wait for another process (fifo(7))."""
        path = self.shell.quote(pipe)
        if not frame.alone or self.shell.kind == "bash":
            return f"{how}{path}"
        if self.shell.kind == "zsh":  # which copies to both when a descriptor is redirected twice
            return f"{self.life_fd}<>{path} {how}{path} {self.life_fd}>&-"
        return f"{how[0]}<>{path} {how}{path}"

    def _seldom(self, frame: Frame, text: str) -> str:
        """A part that bash runs seldom: between quotes, since it takes far longer to parse what stands outside of them.

        That is parsed when it is run, so no alias may be able to get into it.
        """
        return text if frame.redefined else f"\\builtin eval {self.shell.literal(text)}"

    def _killed(self, frame: Frame) -> str:
        """Kill a shell that cannot go on.

        Without a status, a file or a pipe was not there for the text; or a variable of anyshell cannot be set, or a function of
        anyshell is gone, and then the shell cannot go on.
        """
        builtin = _BUILTIN[self.shell.kind]
        return (
            f'case ${{ANYSHELL_STATUS-}}${{ANYSHELL_SET-}} in "") {builtin} test -p {self.shell.quote(frame.stdout)} && '
            f'{builtin} kill -s KILL "$$";; esac'
        )

    def _told(self, frame: Frame) -> str:
        """Take down how it ended, and where the shell is: the last line says that.

        A shell that reads no more lines, by "set -t", tells it now.
        """
        kind = self.shell.kind
        builtin = _BUILTIN[kind]
        words = "${ANYSHELL_STATUS:-x} ${ANYSHELL_SET:+i}"
        if frame.pids:
            words += " ${ANYSHELL_FIRST##* } ${ANYSHELL_LAST##* }"
        # PWD is a variable like any other, and what the shell remembers may have another name by now.
        there = '\\[ . -ef "${PWD-}" ]' if kind == "sh" else "[[ ${PWD-} == /* && . -ef $PWD ]]"
        # One program, since a DEBUG trap may print before each command; the dot keeps line feeds at the end.
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
"""The first positional parameter of sh where nothing of a text runs."""

_UNWOUND = "anyshell:unwound"
"""The argument of bash's file after a text made bash unwind to its input: the text must not run again; its end must be told."""

_BUILTIN: dict[ShellKind, str] = {"bash": "\\builtin", "zsh": "\\builtin", "sh": "\\command"}

_STATUS_FD: dict[ShellKind, int] = {"bash": 199, "zsh": 8, "sh": 8}
"""The descriptor on which the shell tells the end of a command; closed in all programs of a command."""

# A function that has replaced "builtin" sets no variable by it. A tab, since bash and zsh write what they print line by line.
_PRINT_TOLD = '\\builtin printf -v ANYSHELL_TOLD \'%s\\t%s\' "{}" "$ANYSHELL_PWD"'

_SET_TOLD: dict[ShellKind, str] = {
    "bash": _PRINT_TOLD,
    "zsh": _PRINT_TOLD,
    "sh": 'ANYSHELL_TOLD="{}\t$ANYSHELL_PWD"',
}

_IF_TOLD: dict[ShellKind, str] = {
    # No alias and no function answers to this.
    "bash": "((${ANYSHELL_TOLD:+1}))",
    "zsh": "((${ANYSHELL_TOLD:+1}))",
    "sh": '\\[ "${ANYSHELL_TOLD-}" ]',
}
"""Short, since a shell reads its input byte by byte."""

_WITHOUT_ALIASES: dict[ShellKind, str] = {
    "bash": "\\builtin shopt -q expand_aliases || ANYSHELL_ALIASES=off; \\builtin shopt -u expand_aliases\n",
    # Between commands: a global alias may have the name of anything, with a backslash before it as well.
    "zsh": "[[ -o aliases ]] || ANYSHELL_ALIASES=off; \\builtin setopt no_aliases\n",
}
"""A line after which words are read as they stand."""

_WITH_ALIASES: dict[ShellKind, str] = {
    "bash": "case ${ANYSHELL_ALIASES-} in ?*) \\builtin unset ANYSHELL_ALIASES;; *) \\builtin shopt -s expand_aliases;; esac",
    "zsh": "case ${ANYSHELL_ALIASES-} in ?*) \\builtin unset ANYSHELL_ALIASES;; *) \\builtin setopt aliases;; esac",
}
"""The text that restores aliases which were expanded before."""

_KEEP: dict[ShellKind, str] = {
    "bash": "\\builtin enable . printf exec",
    "zsh": "\\builtin enable -r case esac if then else fi '{' '}' '[[' || :; \\builtin enable . printf return || :; "
    "(( ${FUNCNEST:-1} )) || FUNCNEST=1",
}
"""The text that restores the builtins and words with which the next command begins."""

_INTERRUPT_BASH = (
    f"{_WITHOUT_ALIASES['bash']}{_WITH_ALIASES['bash']}; "
    "if ((${#BASH_SOURCE[@]} > 1)) && [[ ! ${ANYSHELL_SET-} ]]; then "
    # Not by a substitution: SIGINT may end that, and bash ends itself then. The file was read whole before the text began.
    "\\builtin trap -p DEBUG 2>/dev/null >|DIRECTORYcommand; "
    '[[ :$BASHOPTS: == *:extdebug:* || $- == *T* || -s DIRECTORYcommand ]] && \\builtin kill -s KILL "$$"; '
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
    # The process that does so is one of the text's, and may be asked to end meanwhile.
    f'case ${{1-}} in {_AT_HOME}) ;; *) ANYSHELL_SET=1; return "$(kill -s VTALRM "$$")130" ;; esac'
)

_READ_PID = "ANYSHELL_PID=; \\command read -r ANYSHELL_PID 2>/dev/null </proc/self/stat || :; ANYSHELL_PID=${ANYSHELL_PID%% *}"
"""Take down which process this is: ``$$`` is the shell's in a subshell, too."""

_READ_PID_QUOTED = _READ_PID.replace("$", "\\$")
"""The reading of a pid, between double quotes."""

_BEGIN: dict[ShellKind, str] = {
    "bash": "exec 199>&2 2>/dev/null >/dev/null; shopt -s expand_aliases; trap TRAP VTALRM\n",
    "zsh": f"exec 8>&2 2>/dev/null >/dev/null\n{_INTERRUPT_ZSH}",
    "sh": (
        f"exec 8>&2 2>/dev/null >/dev/null; set -- {_AT_HOME}; trap '{_INTERRUPT_SH}' VTALRM\n"
        "anyshell_run() { \\command . DIRECTORYcommand 8>&- && ANYSHELL_STATUS=0 || ANYSHELL_STATUS=$?; anyshell_here; }\n"
        'anyshell_status() { return "$1"; }\n'
        'anyshell_run_on() { ANYSHELL_STATUS=$1; shift; anyshell_status "$ANYSHELL_STATUS" || '
        "\\command . DIRECTORYcommand 8>&- && ANYSHELL_STATUS=0 || ANYSHELL_STATUS=$?; anyshell_here; }\n"
        # By an error in a subshell busybox leaves the file there, too: that process would read our lines.
        f'{_READ_PID}; eval "anyshell_here() {{ \\unset -f command; {_READ_PID_QUOTED}; '
        "case \\${ANYSHELL_PID:-'$ANYSHELL_PID'} in '$ANYSHELL_PID') ;; "
        '*) \\command exit \\"\\$ANYSHELL_STATUS\\";; esac; }"\n'
    ),
}
"""The redirections of the shell's own descriptors, and the trap. No command has the shell's earlier standard error."""


_ENOUGH: dict[ShellKind, str] = {
    "bash": "{ exec 199>&2; } 2>/dev/null || "
    "{ \\builtin printf '\\000few WORD %s\\000' \"$(\\builtin ulimit -n)\" >&2; exit 1; }\n"
}
"""Says so and ends where the host allows too few descriptors for these."""


def _run_bash(conversation: Conversation, frame: Frame) -> str:
    output = conversation._output(frame)
    source = f"\\builtin . {conversation._path('command')} 199>&-"
    if frame.careful:
        source += f" {output.rpartition(' ')[0]}"
    # "!" spares the shell an ERR trap and errexit for the file as a whole; inside it they are as ever.
    source = f"{conversation._failing(frame)}! {source}; ANYSHELL_STATUS={conversation._number(frame)}${{PIPESTATUS[0]}}"
    undo = ""
    if frame.careful:
        # exec redirects its output, so that an EXIT trap prints there too. Not its input: the shell reads commands from
        # that. The group keeps what bash traces, and what a DEBUG trap prints, of our own commands out of the output; so
        # the text's is opened once more, by name: a copy of a high descriptor would have bash keep others next to that.
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
        # The function is the text's where that was left by an error.
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
    # After "[[" without an end bash knows no "[[" until another error of syntax resets its parser.
    'case ${ANYSHELL_STATUS-} in *:2) \\command eval ")" || \\builtin :;; esac\n'
    'case ${ANYSHELL_SET-} in "") ;; *) \\builtin trap - DEBUG; \\builtin shopt -u extdebug\n'
    "case $ANYSHELL_SET in *E*) \\builtin set -E;; esac; case $ANYSHELL_SET in *e*) \\builtin set -e;; esac;; esac\n"
)
"""The text that restores in bash what an interrupt or a syntax error has taken."""

_HIDE_EXEC = (
    "{ ! \\builtin declare -F exec || "
    "{ ANYSHELL_EXEC=$(\\builtin declare -f exec); \\builtin unset -f exec; }; }"
)
"""``builtin`` cannot call bash's exec so that redirections last: a function of that name is put away for a moment."""

_SHOW_EXEC = (
    'case ${ANYSHELL_EXEC-} in ?*) \\builtin eval "$ANYSHELL_EXEC"; \\builtin unset ANYSHELL_EXEC;; esac'
)


def _both_ends(conversation: Conversation, frame: Frame) -> tuple[str, str]:
    """The texts that open the pipes at both ends in bash, and close the ends that are not needed.

    By exec: of what another command redirects, bash keeps a copy until that has ended.
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
        # "return" ends a file before that line, too; then the last word that has run is that one, or what is returned.
        f"case ${{ANYSHELL_STATUS-}}:$ANYSHELL_REST in {number}e126:return|{number}e126:126) ANYSHELL_STATUS={number}126;; "
        f"{number}e126:*) ANYSHELL_STATUS={number}1;; "
        f"{number}e*) ANYSHELL_STATUS={number}${{ANYSHELL_STATUS#*e}};; esac\n"
    )
    # One compound command, which is read whole before it is run: a subshell of the text sets the place back, when it ends,
    # from which this file is read on, and what follows would be run twice.
    return (
        # "always", since by err_return a text that fails has this file return, too. Not around the text alone: what that
        # returns would set off a ZERR trap once more.
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
    # exec's redirections, so that an EXIT trap prints to them too.
    run = f"\\exec {conversation._output(frame)}; {function} {conversation._input(frame)}; \\exec >/dev/null 2>&1 9>&-"
    # A function, so that no file but the text's is being read while that runs: by an error in a subshell, busybox goes back
    # to what was read when "command" began, which in that process is gone unless it is the shell's own input.
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
