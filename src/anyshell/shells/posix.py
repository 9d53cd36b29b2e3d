"""bash, zsh and sh: their paths, quoting, and the command line for a text.

A command runs as ``SHELL -c -- TEXT NAME``. The last argument becomes ``$0``, and so the first word of the shell's own
messages; without the ``--``, a text that begins with a dash would be options. On Linux one argument holds at most 128 KiB
(MAX_ARG_STRLEN in execve(2)). So a long text travels in a file, and the argument holds a short text that reads and evaluates
the file.

In long texts alone, the evaluation leaves traces: a syntax error is reported as ``eval:`` instead of ``-c:``, zsh's own
messages begin with ``(eval):`` instead of ``zsh:``, bash's ``set -x`` begins its lines with ``++``, and a syntax error on the
very first line is shown with the ``unset`` that anyshell puts before the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from anyshell._types import ShellCandidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anyshell._types import OperatingSystem, ShellInfo, ShellKind

LONGEST_ARGUMENT = 100 * 1024
"""Bytes of a text that travel as an argument, more travel in a file; the rest of Linux's 128 KiB is left as a margin."""

_END = "."
"""The end mark of a text in a file. A command substitution drops trailing line feeds; with the mark they are not trailing."""

# Unquoted because no shell here gives them a meaning. "=" is not among them: zsh expands "=ls" to the path of ls, and a
# first word "A=b" would be an assignment.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-]+\Z")

# Reserved words of POSIX, bash and zsh. Quoted, they are ordinary words, also where a command begins.
_RESERVED = frozenset(
    {"case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then", "until", "while"}
    | {"coproc", "function", "select", "time"}
    | {"end", "foreach", "nocorrect", "repeat"}
)

_UNSET = frozenset({"BASH_ENV", "ENV", "CDPATH", "OLDPWD"})
"""Variables that would change the meaning of a text: startup files of a shell, and targets of ``cd DIR`` and ``cd -``."""


class Launch(NamedTuple):
    """The program that a backend starts for one command.

    Attributes:
        argv: The shell and its arguments.
        script: The text that the file named by ``ANYSHELL_SCRIPT`` must hold, byte for byte; ``None`` when `argv` holds the
            command itself.
    """

    argv: tuple[str, ...]
    script: str | None = None


class Shell(NamedTuple):
    """A kind of shell, with everything that is particular to the kind.

    Attributes:
        kind: The language of the shell; also the ``$0`` of the commands that it runs.
        paths: The usual paths, in the order of preference; a bare name is looked up on the host's PATH.
        programs: The names under which a program speaks this language.
        packages: The names of packages with the shell, for a message.
        windows_paths: The usual paths on Windows, likewise; see `ShellCandidate`.
        windows_install: The command that installs the shell on Windows, for a message.
        options: The options before ``-c``.
        probe: A text that prints ``anyshell <version>``, and nothing in a shell of another kind.
        read: An expression that gives the content of the file named by ``ANYSHELL_SCRIPT``.
        close: The text that closes that file when its path is ``/dev/fd/N``; empty when the shell cannot.
        windows_probe: The same as `probe`, for Windows builds of the shell alone.
        reads_arguments: The splitting of the command line on Windows: by Microsoft's rules for C programs, or by those of
            MSYS2 and Cygwin.
        unset: Variables that must not reach the shell unless the caller sets them.
        believes_oldpwd: The version from which on the shell takes OLDPWD from its environment, so a start in another
            directory is like a ``cd``; ``None`` when no version does. Empty for every version.
        builtins: The builtin commands of the shell, where `only_starts` needs them.
    """

    kind: ShellKind
    paths: tuple[str, ...]
    programs: tuple[str, ...]
    packages: tuple[str, ...]
    windows_paths: tuple[str, ...]
    windows_install: str
    options: tuple[str, ...]
    probe: str
    read: str
    close: str
    windows_probe: str
    reads_arguments: Literal["as Windows", "as MSYS2"] = "as MSYS2"
    unset: frozenset[str] = _UNSET
    believes_oldpwd: tuple[int, ...] | None = None
    builtins: frozenset[str] = frozenset()

    def quote(self, text: str) -> str:
        """Quote any text as one literal word of a command line."""
        if _PLAIN.match(text) and text not in _RESERVED:
            return text
        return self.literal(text)

    def literal(self, text: str) -> str:
        """Put any text between quotes, as one word or a part of a word."""
        return "'" + text.replace("'", "'\\''") + "'"

    def join(self, arguments: Iterable[str]) -> str:
        """Make a command line of a program and its arguments; the shell interprets none of them."""
        return " ".join(map(self.quote, arguments))

    def only_starts(self, words: Sequence[str]) -> bool:
        """Return whether the shell would only start the program of these words: bash, without a builtin of that name.

        bash alone replaces itself by the program, and has the same builtins everywhere; zsh reads ``/etc/zshenv``.
        """
        return bool(self.builtins) and words[0] not in self.builtins and words[0][0] != "%"  # not a %job

    def launch(
        self,
        info: ShellInfo,
        text: str,
        *,
        snapshot: str | None = None,
        before: Sequence[str] = (),
        terminal: bool = False,
    ) -> Launch:
        """Return the launch of a shell that runs a text as its ``-c`` would.

        Args:
            info: The shell; its path is used unchanged.
            text: Without a NUL byte; of any size. An empty text is a command that succeeds. On Windows the text is changed by
                `for_bash`.
            snapshot: The path of a file that is read before any of the text, so the file's aliases count in the whole text. A
                shell that cannot read the file says so, and goes on. On Windows the path must be ``None``.
            before: The words that will stand before the shell.
            terminal: Whether the shell has a terminal, which makes no difference here.

        Returns:
            A script when the text is longer than `LONGEST_ARGUMENT`, or the command line longer than Windows allows. The
            script's file is read once, from its start, before any of the text runs. A shell that cannot read the file says so
            and exits with 126.
        """
        start = (info.path, *self.options, "-c", "--")
        if info.on_windows:
            from .from_windows import for_bash
            from .windows import LONGEST_FOR_MSYS2, fits, units

            assert snapshot is None
            text = for_bash(text)
            launch = Launch((*start, self._argument(text), self.kind))
            short = self.reads_arguments == "as Windows" or units(text) < LONGEST_FOR_MSYS2
            if short and fits((*before, *launch.argv)):
                return launch
            return Launch((*start, self._argument(self._reader(None)), self.kind), text + _END)
        if _size(text) > LONGEST_ARGUMENT:
            return Launch((*start, self._reader(snapshot), self.kind), text + _END)
        if snapshot is None:
            return Launch((*start, text, self.kind))
        return Launch((*start, self._loader(snapshot), self.kind, text))

    def load(self, snapshot: str) -> str:
        """Return one line that reads a snapshot of the user's set-up and discards the output of the set-up."""
        path = self.quote(snapshot)
        message = self.quote(f"anyshell: your own set-up could not be read from {snapshot}")
        return f"if [ -r {path} ]; then . {path} >/dev/null 2>&1; else printf '%s\\n' {message} >&2; fi"

    def lets_through(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the variables that make other variables reach the shell, where they do not by default: from Windows into WSL.

        Args:
            names: The variables that are set for the shell.
        """
        if self.kind != "wsl":
            return {}
        passed = {
            **dict.fromkeys(names, "u"),
            "ANYSHELL_SCRIPT": "up",
        }  # the flag p translates the path
        return {"WSLENV": ":".join(f"{name}/{flags}" for name, flags in passed.items())}

    def builtin(self, name: str) -> str:
        """Return the name of a builtin in a form that is not an alias, and no function unless a function is called ``builtin``.

        In sh, a special builtin cannot be a function.
        """
        return f"\\{name}" if self.kind == "sh" else f"\\builtin \\{name}"

    def starts_as_if_by_cd(self, info: ShellInfo) -> bool:
        """Return whether the shell, started with PWD and OLDPWD, is in the same state as after a ``cd`` between them."""
        if self.believes_oldpwd is None:
            return False
        version = tuple(map(int, re.findall(r"\d+", info.version)))
        return version >= self.believes_oldpwd

    def candidate(self, path: str, *, os: OperatingSystem = "linux") -> ShellCandidate:
        """Return the probe for one path on a host of some system."""
        probe = (
            self.probe if os != "windows" else self._argument(_PROBE_OF_ARGUMENTS.format(self.windows_probe))
        )
        return ShellCandidate(self.kind, path, (*self.options, "-c", probe))

    def _argument(self, text: str) -> str:
        """Return the argument that makes the shell on Windows receive a text.

        Python makes a command line by Microsoft's rules. MSYS2 and Cygwin read the command line by other rules. Between
        double quotes a backslash escapes the next character, not only a quote (``build_argv`` and ``globify`` in
        winsup/cygwin/dcrt0.cc). And a word without quotes is expanded to file names: so a blank at the start forces quotes.
        """
        if self.reads_arguments == "as Windows":
            return text
        return " " + _BACKSLASHES.sub(lambda match: match[0] * 2, text)

    def _loader(self, snapshot: str) -> str:
        # The text is an argument, since it must not be parsed before the aliases are defined. On one line, as below.
        return f'{self.load(snapshot)}; {self.builtin("eval")} "{self.builtin("shift")}; $1"'

    def _reader(self, snapshot: str | None) -> str:
        load = "" if snapshot is None else f"{self.load(snapshot)}; "
        evaluate, unset = ("eval", "unset") if snapshot is None else map(self.builtin, ("eval", "unset"))
        # Everything is on one line, before the first line of the text, so line numbers stay right. The descriptor is closed
        # and the variables are unset before the text begins: the text finds what a plain -c would find. ANYSHELL_TEXT is
        # never exported: no program is started while it is set.
        return (
            f'ANYSHELL_TEXT={self.read} || ANYSHELL_TEXT=; case $ANYSHELL_TEXT in "") '
            'printf "%s\\n" "anyshell: the command could not be read from $ANYSHELL_SCRIPT" >&2; exit 126;; esac; '
            f"{self.close}{load}"
            f'{evaluate} "{unset} ANYSHELL_SCRIPT ANYSHELL_TEXT; ${{ANYSHELL_TEXT%{_END}}}"'
        )


_PROBE_OF_ARGUMENTS = "A='\\\\'; case ${{#A}} in 2) {};; esac"
"""The check around a probe on Windows: no answer from a shell with other rules for arguments, which would get other texts."""

# Not backslashes before a quote or the end: Python doubles those.
_BACKSLASHES = re.compile(r'(?<!\\)\\++(?!["\\]|\Z)')


def _size(text: str) -> int:
    """Return the bytes of a text, counted only when the number matters: a character has four bytes at most."""
    if len(text) * 4 <= LONGEST_ARGUMENT or len(text) > LONGEST_ARGUMENT:
        return len(text)
    return len(text.encode(errors="surrogatepass"))


def _places(name: str, *more: str) -> tuple[str, ...]:
    return (f"/bin/{name}", f"/usr/bin/{name}", *more, name)


_BUILTINS_OF_BASH = """
. : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo enable
eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read
readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait
"""
"""The builtins that ``compgen -b`` of bash 5.2 names, including those of 3.2."""

BASH = Shell(
    kind="bash",
    paths=_places("bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash"),
    programs=("bash",),
    packages=("bash",),
    # Neither option matters to a plain -c. But bash reads ~/.bashrc for a -c whose stdin is a socket, as below rshd, and
    # Debian's bash also below sshd.
    options=("--norc", "--noprofile"),
    probe='case ${BASH_VERSION-} in ?*) printf "anyshell %s\\n" "${BASH_VERSION%%(*}";; esac',
    windows_paths=(
        "bash",
        *(
            rf"{place}\Git\bin\bash.exe"
            for place in ("%ProgramW6432%", "%ProgramFiles%", "%ProgramFiles(x86)%")
        ),
        r"%LOCALAPPDATA%\Programs\Git\bin\bash.exe",
        r"%USERPROFILE%\scoop\apps\git\current\bin\bash.exe",
        r"%ProgramData%\scoop\apps\git\current\bin\bash.exe",
        r"%SystemDrive%\msys64\usr\bin\bash.exe",
        r"%SystemDrive%\tools\msys64\usr\bin\bash.exe",  # Chocolatey's path
        r"%SystemDrive%\cygwin64\bin\bash.exe",
    ),
    windows_install="winget install Git.Git",
    # The bash of WSL reports linux-gnu there, and cannot be made to report another value: the array is read-only.
    windows_probe=(
        'case ${BASH_VERSINFO[5]-} in *-msys|*-cygwin) printf "anyshell %s\\n" "${BASH_VERSION%%(*}";; esac'
    ),
    read='$(<"$ANYSHELL_SCRIPT")',
    # A number before "<" must be literal there, hence the eval; bash 3.2 of macOS has no {NAME}<&-.
    close='case $ANYSHELL_SCRIPT in /dev/fd/*) eval "exec ${ANYSHELL_SCRIPT##*/}<&-";; esac; ',
    believes_oldpwd=(4, 4),  # CHANGES, "between bash-4.4-alpha and bash-4.3-release"; 3.2 of macOS ignores it
    builtins=frozenset(_BUILTINS_OF_BASH.split()),
)

ZSH = Shell(
    kind="zsh",
    paths=_places("zsh", "/usr/local/bin/zsh", "/opt/homebrew/bin/zsh"),
    programs=("zsh",),
    packages=("zsh",),
    # -f skips every startup file but /etc/zshenv, which no option can (zsh(1), STARTUP/SHUTDOWN FILES).
    options=("-f",),
    probe='case ${ZSH_VERSION-} in ?*) printf "anyshell %s\\n" "$ZSH_VERSION";; esac',
    windows_paths=("zsh", r"%SystemDrive%\msys64\usr\bin\zsh.exe"),
    windows_install="pacman -S zsh in MSYS2",
    windows_probe='case ${ZSH_VERSION-}:$OSTYPE in ?*:msys*|?*:cygwin*) printf "anyshell %s\\n" "$ZSH_VERSION";; esac',
    read='$(<"$ANYSHELL_SCRIPT")',
    # zsh accepts a single digit before "<"; a larger number would be the name of a program to exec.
    close=(
        "case $ANYSHELL_SCRIPT in "
        "/dev/fd/*) ANYSHELL_SCRIPT=${ANYSHELL_SCRIPT##*/}; exec {ANYSHELL_SCRIPT}<&-;; esac; "
    ),
    # zsh sets OLDPWD to PWD at the start, whatever its environment has.
    believes_oldpwd=None,
)

SH = Shell(
    kind="sh",
    paths=_places("sh"),
    programs=("sh", "dash", "ash"),
    packages=("dash",),
    options=(),
    # Most have no version to report. The answer is printed, not echoed from an argument: a stub cannot answer by chance.
    probe='printf "anyshell %s\\n" ""',
    windows_paths=("sh", r"%ProgramFiles%\Git\bin\sh.exe", r"%SystemDrive%\msys64\usr\bin\sh.exe"),
    windows_install="winget install Git.Git",
    windows_probe='printf "anyshell %s\\n" ""',
    read='$(command -p cat "$ANYSHELL_SCRIPT")',
    # POSIX guarantees nothing above descriptor 9, and dash takes a larger number for the name of a program. The file stays
    # open, read-only and unknown to the command.
    close="",
    # dash and busybox do; other kinds of sh cannot be asked. syntax.py leaves the few texts that would notice unchanged.
    believes_oldpwd=(),
)

WSL = Shell(
    kind="wsl",
    paths=("wsl",),
    programs=("wsl",),
    packages=("wsl",),
    windows_paths=(r"%SystemRoot%\Sysnative\wsl.exe", r"%SystemRoot%\System32\wsl.exe"),
    windows_install="wsl --install",
    # Without a shell of WSL's own in between, which would read the text first (wsl --help, --exec).
    options=("--exec", "/bin/bash", *BASH.options),
    probe=":",  # WSL exists on Windows alone
    windows_probe=BASH.probe,
    reads_arguments="as Windows",
    read=BASH.read,
    close=BASH.close,
)
"""bash in the default distribution of the Windows Subsystem for Linux, started by Windows' ``wsl.exe``."""
