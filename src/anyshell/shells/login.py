"""The text for a server's login shell, which starts a command as it would start on this machine.

A server passes one string to the user's login shell, as ``SHELL -c STRING``: there is no argument list, no directory and, on
most servers, no environment. So the string changes the directory, sets the variables, reports that it got this far, and
becomes the command by ``exec``.

Where the login shell is a POSIX shell, the string is that text itself, which costs nothing. Otherwise the string only reads
the text from its stdin and evaluates it. The string does the same when the text holds data that the host's process list must
not show, or is too long for an argument. Nothing else is sent before the text was read to its end, so reading too much is
impossible whatever ``head`` does.

On a terminal, the sent text would be echoed, cut at 4,096 bytes and changed, and each ^C and ^D would be a key. So the
terminal is first set to raw mode; then the string reports that it is ready; and when all is read, the terminal's settings are
restored.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING

from anyshell._types import LoginCommand

from .posix import LONGEST_ARGUMENT, SH
from .windows_login import QUESTION, WindowsLogin, windows_logins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anyshell._types import Spawn

_POSIX = frozenset({"bash", "zsh", "sh", "dash", "ash"})
"""Login shells that can be given the text itself. Other POSIX shells have surprises (ksh closes the descriptors above 2 when
it starts a program), and are given the text by way of ``/bin/sh``.
"""

LONGEST_STATED = LONGEST_ARGUMENT // 4
"""Characters of the text for a login shell that may be its argument; a character has four bytes at most."""

LONGEST_LINE = 2048
"""Bytes of variables that the login shell reads one by one; more are read by a program that must be started first."""

_LIFE_FD = 9
"""Descriptor that a command's whole tree holds: the highest that every shell can name."""

_LIFE_FD_OF_BASH = 197
"""Descriptor of the same kind where the login shell is bash, which can name any: out of the way of scripts."""

_READ_LINE = 'IFS= \\read -r ANYSHELL_LINE; eval "$ANYSHELL_LINE"; unset ANYSHELL_LINE'

_MENDED = "cd printf read ulimit"
"""Commands that a startup file may have replaced by functions of its own."""

_MENDED_TO_READ = "echo eval head printf stty"
"""The mended commands of a text that reads from a terminal."""

_NO_ALIAS = "\\"
"""The character before a command's name: zsh would expand an alias before the line that removes it has run."""

_TELLING = "{a..c} {1..3..2} {a..c..2}"
"""Words that bash expands to seven, or five before its version 4, and zsh to six; dash, busybox, fish and tcsh leave three.
No shell takes the words for an error, as tcsh does ``$BASH_VERSION``.
"""

_OPTIONS = "\\unalias -a 2>/dev/null; set +C +e +f +u +v +x; trap - EXIT HUP INT QUIT PIPE TERM"
"""Reset settings of a startup file that would change the meaning of the text, or the surroundings of the command."""

_MORE_OPTIONS = {"bash": "set +k; trap - DEBUG ERR", "zsh": "emulate -R zsh; trap - DEBUG ZERR"}
"""Reset settings that other shells would refuse."""


_WHERE = (
    "ANYSHELL_BOOT= ANYSHELL_SPACE= ANYSHELL_STAT=; {\n"
    r"\read -r ANYSHELL_STAT </proc${ANYSHELL_NO_PROC-}/self/stat && \read -r ANYSHELL_BOOT </proc/sys/kernel/random/boot_id && "
    "{ " + r"\read -r ANYSHELL_SPACE; " * 4 + "} 3</proc/self/ns/pid </proc/self/fdinfo/3; } 2>/dev/null\n"
    'set -- "$ANYSHELL_BOOT $ANYSHELL_SPACE $ANYSHELL_STAT"; unset ANYSHELL_BOOT ANYSHELL_SPACE ANYSHELL_STAT'
)
"""Sets the first argument to the identity of this process, which differs from processes of the same pid on other machines, in
other pid namespaces and at other times: the host's boot id, ``ino:`` and the namespace's inode where Linux has it in the
fourth line (5.14), and the start time. No program is started for that, and without ``/proc`` nothing is known.
"""


class Login:
    """The writer of lines for one kind of login shell."""

    def __init__(self, path: str = "") -> None:
        """Take the path of the user's login shell; for an unknown shell only words and quotes are used."""
        name = posixpath.basename(path)
        self._direct = name in _POSIX
        self._options = "; ".join(filter(None, (_OPTIONS, _MORE_OPTIONS.get(name)))) + " 2>/dev/null"
        self.life_fd = _LIFE_FD_OF_BASH if name == "bash" else _LIFE_FD
        """The descriptor that every process of a command inherits."""

    @property
    def question(self) -> str:
        """One line of text that every Windows login shell answers in its own way."""
        return QUESTION

    def windows(self, said: str) -> Sequence[WindowsLogin]:
        """Return the launchers for a Windows host, by its login shell's answer; empty for another host."""
        return windows_logins(said)

    def join(self, arguments: Iterable[str]) -> str:
        """Quote strings as words of a POSIX shell text."""
        return SH.join(arguments)

    def read_and_run(self, text: str) -> LoginCommand:
        """Return the login command that runs a text from its stdin in ``/bin/sh``, whatever the login shell is.

        The number of the text's arguments identifies the shell that has read the line: see `facts.sh`.
        """
        sent = _encode(text)
        return LoginCommand(line=_exec_sh(_read(len(sent)), f"anyshell {_TELLING}"), sent=sent)

    def start(self, spawn: Spawn, *, token: str, mark: str, tag: int) -> LoginCommand:
        """Return the login command that starts a command.

        Each line holds the first half of the token, so a login shell that never reaches its command can be found by that
        half. No line holds the whole token, so a shell that prints the line does not print the token.

        Args:
            spawn: The command.
            token: Printed to stdout when the command is about to begin, followed by ``started``, the pid and `_WHERE`, or by
                the error; with split channels, also printed alone to stderr. Output before the token is not the command's.
            mark: The name of the environment variable that marks the command's processes.
            tag: The soft limit on file locks that tags the command's processes.
        """
        on_terminal = spawn.terminal is not None
        all_settings = (
            spawn.settings if spawn.terminal is None else {"TERM": spawn.terminal.term, **spawn.settings}
        )
        if self._direct and spawn.script is None:
            given = _encode(self._export(spawn.env) + "\n") if spawn.env else b""
            if not given or (len(given) <= LONGEST_LINE and given.count(b"\n") <= 1 and not on_terminal):
                pairs: Iterable[tuple[str, str]] = all_settings.items()
                if given:
                    pairs = [pair for pair in pairs if pair[0] not in spawn.env]
                export = [f"export {' '.join(map(_quoted_setting, pairs))} {mark}=1"]
                line = self._text(spawn, [_READ_LINE, *export] if given else export, token=token, tag=tag)
                if len(line) <= LONGEST_STATED and _is_unicode(line):
                    return LoginCommand(line=line, sent=given)
        export = [self._export({**all_settings, **spawn.env, mark: "1"})]
        scripts = () if spawn.script is None else (_encode(spawn.script),)
        if scripts:
            export.append("export ANYSHELL_SCRIPT=/dev/fd/8")
        # A trap of a startup file may print here, where the text is read: the comment sign hides that.
        reading = [_receive_script(len(script), token) for script in scripts]
        if on_terminal:  # everything was read by then; and later, the caller's PATH might have no stty
            reading.append(
                f'stty "$ANYSHELL_TTY" || {{ {_say(token, "terminal")}; exit 126; }}; unset ANYSHELL_TTY'
            )
        text = _encode(self._text(spawn, export, first=reading, token=token, tag=tag) + "\n#")
        name = _halves(token)[0]
        if on_terminal:
            if self._direct:
                mend = f"{self._options}\n\\unset -f {_MENDED_TO_READ} 2>/dev/null"
                line = f"{mend}\n{_read_from_terminal(len(text), token, _NO_ALIAS)}; : {name}"
            else:
                line = _exec_sh(_read_from_terminal(len(text), token), name)
            return LoginCommand(line=line, when_ready=(text, *scripts))
        line = (
            f"{_read(len(text), _NO_ALIAS)}; : {name}" if self._direct else _exec_sh(_read(len(text)), name)
        )
        return LoginCommand(line=line, sent=text, when_ready=scripts)

    def _export(self, env: Mapping[str, str]) -> str:
        return "export " + self.join(_assignments(env))

    def _text(
        self, spawn: Spawn, export: Iterable[str], *, token: str, tag: int, first: Iterable[str] = ()
    ) -> str:
        words = self.join
        unset = sorted(spawn.unset - spawn.settings.keys() - spawn.env.keys())
        lines = [
            self._options,
            rf"\unset -f {_MENDED} 2>/dev/null",
            *first,
            # No path looks like an option: the directory is absolute, and so are the programs below.
            rf"\cd {words([spawn.cwd])} 2>/dev/null || {_why_not(words([spawn.cwd]), token)}",
            f"[ -x {words(spawn.argv[:1])} ] || {{ {_say(token, 'program')}; exit 126; }}",
            *(["unset " + " ".join(unset)] if unset else []),
            *export,
        ]
        if _tells_usage(spawn):
            # Where a startup file has joined the two, stderr is the output, where nothing else may be printed.
            lines.append(
                "[ /dev/fd/1 -ef /dev/fd/2 ] && exec 3>/dev/null || exec 3>&2\nexport ANYSHELL_USED=3"
            )
        lines += [
            # The option is -x in bash and zsh, -w in dash; busybox has none.
            rf"\ulimit -S -x {tag} 2>/dev/null || \ulimit -S -w {tag} 2>/dev/null",
            _WHERE,
            # The connection that asked for the command may be closed now. Then this fails, and nothing runs.
            *([f"{_say(token, '')} >&2 || exit 1"] if spawn.split_stderr else []),
            # Where so high a number is not allowed (ulimit -n), another is better than none. Reported only after that: a
            # shell that accepts only single digits takes the number for a program, and ends.
            f"{{ exec {self.life_fd}>&1; }} 2>/dev/null || exec {_LIFE_FD}>&1",
            f"{_say(token, 'started $$ $1')} || exit 1",
            f"exec {words(spawn.argv)}{self._redirections(spawn)}",
        ]
        return "\n".join(lines)

    def _redirections(self, spawn: Spawn) -> str:
        given = [] if spawn.stdin or spawn.terminal else ["</dev/null"]
        if not spawn.split_stderr and not spawn.terminal:
            given.append("2>&1")
        # Where /bin/sh is a ksh, it closes the descriptors that the program itself is not given.
        if spawn.script is not None:
            given.append("8<&8")
        if _tells_usage(spawn):
            given.append("3>&3")
        if self.life_fd == _LIFE_FD:
            given.append(f"{_LIFE_FD}>&{_LIFE_FD}")
        return "".join(f" {each}" for each in given)


@lru_cache(maxsize=256)
def _quoted_setting(setting: tuple[str, str]) -> str:
    """Quote one of the variables that are the same for every command. Never given a secret, which the cache would keep."""
    return SH.quote("=".join(setting))


def _exec_sh(text: str, name: str) -> str:
    """Return the line that runs a short text in ``/bin/sh``, whatever the login shell is."""
    # Every shell, fish and tcsh too, takes this for a program and its arguments: between the single quotes is no character
    # with a meaning for any of them ("!", "\\" and line feeds would have one).
    return f"exec /bin/sh -c '{text}' {name}"


def _read(size: int, by: str = "") -> str:
    return f'{by}eval "$({by}head -c {size})"'


def _read_from_terminal(size: int, token: str, by: str = "") -> str:
    """Return the text that reads a text from a terminal, byte for byte and without echo; may stand between single quotes.

    Args:
        size: Bytes of the text.
        token: Printed with ``ready``.
        by: The prefix of each command.
    """
    first, second = _halves(token)
    return (
        f"ANYSHELL_TTY=$({by}stty -g) && {by}stty raw -echo && {by}printf %s {first} && {by}echo {second} ready || "
        f"{{ {by}printf %s {first}; {by}echo {second} terminal; exit 126; }}; {_read(size, by)}"
    )


def _tells_usage(spawn: Spawn) -> bool:
    """Return whether stderr is free for a sandbox leader's report on a command's resources."""
    return spawn.holder is not None and not spawn.split_stderr and spawn.terminal is None


def _halves(token: str) -> tuple[str, str]:
    middle = len(token) // 2
    return token[:middle], token[middle:]


def _say(token: str, words: str) -> str:
    """Return the command that prints the token and words; the command does not contain the whole token."""
    first, second = _halves(token)
    return f"\\printf '%s%s %s\\n' {first} {second} \"{words}\""


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _assignments(env: Mapping[str, str]) -> Iterator[str]:
    return (f"{name}={value}" for name, value in env.items())


def _why_not(directory: str, token: str) -> str:
    return (
        f"{{ if [ -x {directory} ] && [ -d {directory} ]; then set -- refused; elif [ -d {directory} ]; then "
        f"set -- denied; elif [ -e {directory} ]; then set -- file; else set -- missing; fi; {_say(token, 'cwd $1')}; exit 1; }}"
    )


def _receive_script(size: int, token: str) -> str:
    """Return the text that receives the script in a file whose name is removed before the first byte is written."""
    return (
        "ANYSHELL_SCRIPT=$(umask 077; mktemp 2>/dev/null || TMPDIR=/tmp mktemp) && "
        'exec 7>|"$ANYSHELL_SCRIPT" 8<"$ANYSHELL_SCRIPT" && '
        f'rm -f "$ANYSHELL_SCRIPT" && {_say(token, "ready")} && head -c {size} >&7 && exec 7>&- '
        f'|| {{ {_say(token, "script")}; rm -f "$ANYSHELL_SCRIPT"; exit 126; }}'
    )
