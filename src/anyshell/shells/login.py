"""The text for a server's login shell, so that a command starts as it would have started here.

A server hands the one string that it is sent to the user's login shell, as ``SHELL -c STRING``: there is no argument
list, no directory and, on most servers, no environment. So the string changes the directory, sets the variables,
says that it got so far, and becomes the command by ``exec``.

Where the login shell is a POSIX one, the string is that text itself, which costs nothing. Otherwise, and when the
text holds what the host's process list must not show or is too long for an argument, the string only reads the text
from its stdin and evaluates it. Nothing else is sent before the text was read to its end, so that reading too much is
impossible whatever ``head`` does.

On a terminal, what is sent would be shown, cut at 4,096 bytes and changed, and each ^C and ^D would be a key. So the
terminal is made a mere pipe first; then the string says that it is ready; and when all is read, the terminal is made
what it was.
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
"""Login shells that can be given the text itself. Others that speak POSIX have a surprise or two (ksh closes the
descriptors above 2 when it starts a program), and can be given it by way of ``/bin/sh``."""

LONGEST_STATED = LONGEST_ARGUMENT // 4
"""Characters of the text for a login shell that may be its argument; a character has four bytes at most."""

LONGEST_LINE = 2048
"""Bytes of variables that the login shell reads one by one; more are read by a program that must be started first."""

_LIFE_FD = 9
"""Descriptor that a command's whole tree holds: the highest that every shell can name."""

_LIFE_FD_OF_BASH = 197
"""Descriptor of that kind where the login shell is bash, which can name any: out of the way of scripts."""

_READ_LINE = 'IFS= \\read -r ANYSHELL_LINE; eval "$ANYSHELL_LINE"; unset ANYSHELL_LINE'

_MENDED = "cd printf read ulimit"
"""Commands that a startup file may have replaced by functions of its own."""

_MENDED_TO_READ = "echo eval head printf stty"
"""The mended commands of a text that reads from a terminal."""

_NO_ALIAS = "\\"
"""Before a command's name: zsh would replace an alias before the line that removes it has run."""

_TELLING = "{a..c} {1..3..2} {a..c..2}"
"""Words of which bash makes seven, or five before its version 4, and zsh six; dash, busybox, fish and tcsh leave three.
No shell takes them for an error, as tcsh does ``$BASH_VERSION``."""

_OPTIONS = "\\unalias -a 2>/dev/null; set +C +e +f +u +v +x; trap - EXIT HUP INT QUIT PIPE TERM"
"""Settings of a startup file that would change the meaning of the text, or the surroundings of the command."""

_MORE_OPTIONS = {"bash": "set +k; trap - DEBUG ERR", "zsh": "emulate -R zsh; trap - DEBUG ZERR"}
"""Mended settings that other shells would refuse."""


_WHERE = (
    "ANYSHELL_BOOT= ANYSHELL_SPACE= ANYSHELL_STAT=; {\n"
    r"\read -r ANYSHELL_STAT </proc${ANYSHELL_NO_PROC-}/self/stat && \read -r ANYSHELL_BOOT </proc/sys/kernel/random/boot_id && "
    "{ " + r"\read -r ANYSHELL_SPACE; " * 4 + "} 3</proc/self/ns/pid </proc/self/fdinfo/3; } 2>/dev/null\n"
    'set -- "$ANYSHELL_BOOT $ANYSHELL_SPACE $ANYSHELL_STAT"; unset ANYSHELL_BOOT ANYSHELL_SPACE ANYSHELL_STAT'
)
"""Sets the first argument to what tells this process from those of the same pid on other machines, in other pid namespaces
and at other times: the host's boot id, ``ino:`` and the namespace's inode where Linux tells that in the fourth line (5.14),
and when it started. No program is started for it, and where there is no ``/proc`` nothing is known."""


class Login:
    """Writes for one kind of login shell."""

    def __init__(self, path: str = "") -> None:
        """Take the path of the user's login shell; an unknown one is given nothing but words and quotes."""
        name = posixpath.basename(path)
        self._direct = name in _POSIX
        self._options = "; ".join(filter(None, (_OPTIONS, _MORE_OPTIONS.get(name)))) + " 2>/dev/null"
        self.life_fd = _LIFE_FD_OF_BASH if name == "bash" else _LIFE_FD
        """The descriptor that everything inherits which a command starts."""

    @property
    def question(self) -> str:
        """One line that every login shell of Windows answers in a way of its own."""
        return QUESTION

    def windows(self, said: str) -> Sequence[WindowsLogin]:
        """Return the ways to write for a Windows host, by what its login shell says; empty for another host."""
        return windows_logins(said)

    def join(self, arguments: Iterable[str]) -> str:
        """Make words of a POSIX shell text that mean exactly these strings."""
        return SH.join(arguments)

    def read_and_run(self, text: str) -> LoginCommand:
        """Have ``/bin/sh`` run a text that it reads from its stdin, whatever the login shell is.

        The number of the text's arguments tells the shell that has read the line: see `facts.sh`.
        """
        sent = _encode(text)
        return LoginCommand(line=_exec_sh(_read(len(sent)), f"anyshell {_TELLING}"), sent=sent)

    def start(self, spawn: Spawn, *, token: str, mark: str, tag: int) -> LoginCommand:
        """Have a command started.

        The first half of the token stands in each line, so that a login shell which never comes to its command can be
        found by it; the whole never does, so that who prints the line does not print the token.

        Args:
            spawn: The command.
            token: Printed to stdout when the command is about to begin, with ``started``, the pid and `_WHERE` behind
                it, or with what is wrong; and if the channels are split, alone to stderr. What came before was not its.
            mark: The name of a variable that the command's processes have.
            tag: Their soft limit on file locks.
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
        # Behind the comment sign may come what a trap of a startup file prints where the text is read.
        reading = [_receive_script(len(script), token) for script in scripts]
        if on_terminal:  # all that is sent was read then; and later, the caller's PATH might have no stty
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
            # No option could be meant: the directory is absolute, and so are the programs below.
            rf"\cd {words([spawn.cwd])} 2>/dev/null || {_why_not(words([spawn.cwd]), token)}",
            f"[ -x {words(spawn.argv[:1])} ] || {{ {_say(token, 'program')}; exit 126; }}",
            *(["unset " + " ".join(unset)] if unset else []),
            *export,
        ]
        if _tells_usage(spawn):
            # It is the output where a startup file has joined the two, and nothing else may stand there.
            lines.append(
                "[ /dev/fd/1 -ef /dev/fd/2 ] && exec 3>/dev/null || exec 3>&2\nexport ANYSHELL_USED=3"
            )
        lines += [
            # bash and zsh call it -x, dash -w; busybox has no name for it.
            rf"\ulimit -S -x {tag} 2>/dev/null || \ulimit -S -w {tag} 2>/dev/null",
            _WHERE,
            # The connection that asked for the command may be gone by now. Then this fails, and nothing is run.
            *([f"{_say(token, '')} >&2 || exit 1"] if spawn.split_stderr else []),
            # Where so high a number is not allowed (ulimit -n), another is better than none. Said only after that: a shell
            # that knows single digits alone takes the number for a program, and ends.
            f"{{ exec {self.life_fd}>&1; }} 2>/dev/null || exec {_LIFE_FD}>&1",
            f"{_say(token, 'started $$ $1')} || exit 1",
            f"exec {words(spawn.argv)}{self._redirections(spawn)}",
        ]
        return "\n".join(lines)

    def _redirections(self, spawn: Spawn) -> str:
        given = [] if spawn.stdin or spawn.terminal else ["</dev/null"]
        if not spawn.split_stderr and not spawn.terminal:
            given.append("2>&1")
        # Where /bin/sh is a ksh, it closes what the program itself is not given.
        if spawn.script is not None:
            given.append("8<&8")
        if _tells_usage(spawn):
            given.append("3>&3")
        if self.life_fd == _LIFE_FD:
            given.append(f"{_LIFE_FD}>&{_LIFE_FD}")
        return "".join(f" {each}" for each in given)


@lru_cache(maxsize=256)
def _quoted_setting(setting: tuple[str, str]) -> str:
    """Quote one of the variables that are the same for every command. Never given a secret, which it would keep."""
    return SH.quote("=".join(setting))


def _exec_sh(text: str, name: str) -> str:
    """Have ``/bin/sh`` run a short text, whatever the login shell is."""
    # Every shell there is, fish and tcsh too, takes this for a program and its arguments: between the single quotes
    # is nothing that any of them looks at ("!", "\\" and line feeds would be).
    return f"exec /bin/sh -c '{text}' {name}"


def _read(size: int, by: str = "") -> str:
    return f'{by}eval "$({by}head -c {size})"'


def _read_from_terminal(size: int, token: str, by: str = "") -> str:
    """Read a text from a terminal, byte for byte and without echo; in words that may stand between single quotes.

    Args:
        size: Bytes of the text.
        token: What ``ready`` is said with.
        by: Stands before each command.
    """
    first, second = _halves(token)
    return (
        f"ANYSHELL_TTY=$({by}stty -g) && {by}stty raw -echo && {by}printf %s {first} && {by}echo {second} ready || "
        f"{{ {by}printf %s {first}; {by}echo {second} terminal; exit 126; }}; {_read(size, by)}"
    )


def _tells_usage(spawn: Spawn) -> bool:
    """Whether stderr is free for what the leader of a sandbox tells of a command."""
    return spawn.holder is not None and not spawn.split_stderr and spawn.terminal is None


def _halves(token: str) -> tuple[str, str]:
    middle = len(token) // 2
    return token[:middle], token[middle:]


def _say(token: str, words: str) -> str:
    """Print the token and words, without having it stand here as a whole."""
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
    """Put what is sent into a file that has no name any more when the first byte is written to it."""
    return (
        "ANYSHELL_SCRIPT=$(umask 077; mktemp 2>/dev/null || TMPDIR=/tmp mktemp) && "
        'exec 7>|"$ANYSHELL_SCRIPT" 8<"$ANYSHELL_SCRIPT" && '
        f'rm -f "$ANYSHELL_SCRIPT" && {_say(token, "ready")} && head -c {size} >&7 && exec 7>&- '
        f'|| {{ {_say(token, "script")}; rm -f "$ANYSHELL_SCRIPT"; exit 126; }}'
    )
