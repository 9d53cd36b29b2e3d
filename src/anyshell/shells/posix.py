"""bash, zsh and sh: finding, quoting, and the command line for a text.

A command runs as ``SHELL -c -- TEXT NAME``: the last argument becomes ``$0``, and so the first word of the
shell's own messages; without the ``--``, a text that begins with a dash would be options. On Linux one argument holds at most 128 KiB (MAX_ARG_STRLEN in execve(2)), so a long
text travels in a file instead, and the argument carries a short text that reads and evaluates that file.

What evaluating cannot hide, in long texts alone: a syntax error is reported as ``eval:`` where it would be
``-c:``, zsh's own messages begin with ``(eval):`` instead of ``zsh:``, bash's ``set -x`` begins its lines with
``++``, and a syntax error on the very first line is shown with the ``unset`` that we put before it.
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
"""Ends a text in a file. A command substitution drops trailing line feeds; behind this they are not trailing."""

# Left bare because no shell here gives them a meaning. "=" is not among them: zsh takes "=ls" for the path of
# ls, and a first word "A=b" would be an assignment.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-]+\Z")

# Reserved words of POSIX, bash and zsh. Quoted, they are words like any other, also where a command begins.
_RESERVED = frozenset(
    {"case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then", "until", "while"}
    | {"coproc", "function", "select", "time"}
    | {"end", "foreach", "nocorrect", "repeat"}
)

_UNSET = frozenset({"BASH_ENV", "ENV", "CDPATH", "OLDPWD"})
"""Variables that would change the meaning of a text: files that a shell reads first, and targets of ``cd DIR`` and ``cd -``."""


class Launch(NamedTuple):
    """The program that a backend starts for one command.

    Attributes:
        argv: The shell and its arguments.
        script: The text that the file named by ``ANYSHELL_SCRIPT`` must hold, byte for byte; ``None`` when `argv` holds
            the command itself.
    """

    argv: tuple[str, ...]
    script: str | None = None


class Shell(NamedTuple):
    """A kind of shell, and everything that is particular to it.

    Attributes:
        kind: Its language; also the ``$0`` of the commands that it runs.
        paths: Its usual paths, in the order of preference; a bare name is looked up on the host's PATH.
        programs: Names under which a program speaks this language.
        packages: Names of packages that bring it, for a message.
        windows_paths: Its usual paths on Windows, likewise; see `ShellCandidate`.
        windows_install: The command that installs it on Windows, for a message.
        options: The options before ``-c``.
        probe: A text that prints ``anyshell <version>``, and nothing in a shell of another kind.
        read: An expression that gives the content of the file named by ``ANYSHELL_SCRIPT``.
        close: The text that closes that file when its path is ``/dev/fd/N``; empty when the shell cannot.
        windows_probe: The same as `probe`, in a shell of Windows' own alone.
        reads_arguments: The splitting of its command line on Windows: by Microsoft's rules for C programs, or by
            those of MSYS2 and Cygwin.
        unset: Variables that must not reach the shell unless the caller sets them.
        believes_oldpwd: The version from which on the shell takes OLDPWD from its environment, so that starting
            it elsewhere is like a ``cd``; ``None`` when none does. Empty for every version.
        builtins: The commands of its own, where `only_starts` needs them.
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
        """Make any text one word of a command line, taken literally."""
        if _PLAIN.match(text) and text not in _RESERVED:
            return text
        return self.literal(text)

    def literal(self, text: str) -> str:
        """Make any text one word between quotes, or a part of one."""
        return "'" + text.replace("'", "'\\''") + "'"

    def join(self, arguments: Iterable[str]) -> str:
        """Make a command line of a program and its arguments, none of which the shell will interpret."""
        return " ".join(map(self.quote, arguments))

    def only_starts(self, words: Sequence[str]) -> bool:
        """Whether the shell would only start the program of these words: it is bash, and has no command of that name itself.

        bash alone replaces itself by the program, and has the same builtins everywhere; zsh reads ``/etc/zshenv``.
        """
        return bool(self.builtins) and words[0] not in self.builtins and words[0][0] != "%"  # that of a job

    def launch(
        self,
        info: ShellInfo,
        text: str,
        *,
        snapshot: str | None = None,
        before: Sequence[str] = (),
        terminal: bool = False,
    ) -> Launch:
        """Say what to start so that a shell runs a text as its ``-c`` would.

        Args:
            info: The shell; its path is used as it is.
            text: Without a NUL byte; of any size. An empty text is a command that succeeds. On Windows it is run as
                `for_bash` makes it.
            snapshot: The path of a file that is read before any of the text, so that its aliases count in all of
                it. A shell that cannot read it says so, and goes on. On Windows it must be ``None``.
            before: Words that will stand before the shell.
            terminal: Whether it has one, which is the same to it.

        Returns:
            A script when the text is longer than `LONGEST_ARGUMENT`, or the command line longer than Windows takes. Its
            file is read once, from its start, before anything of the text runs. A shell that cannot read it says so and
            exits with 126.
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
        """Write one line that reads a snapshot of the user's set-up, whose own output is discarded."""
        path = self.quote(snapshot)
        message = self.quote(f"anyshell: your own set-up could not be read from {snapshot}")
        return f"if [ -r {path} ]; then . {path} >/dev/null 2>&1; else printf '%s\\n' {message} >&2; fi"

    def lets_through(self, names: Iterable[str]) -> Mapping[str, str]:
        """Give the variables by which others reach the shell, where they do not by themselves: from Windows into WSL.

        Args:
            names: The variables that are set for it.
        """
        if self.kind != "wsl":
            return {}
        passed = {
            **dict.fromkeys(names, "u"),
            "ANYSHELL_SCRIPT": "up",
        }  # the latter as the path that it is there
        return {"WSLENV": ":".join(f"{name}/{flags}" for name, flags in passed.items())}

    def builtin(self, name: str) -> str:
        """Name a builtin so that it is no alias, and no function unless that is called ``builtin``.

        In sh, a special builtin cannot be a function.
        """
        return f"\\{name}" if self.kind == "sh" else f"\\builtin \\{name}"

    def starts_as_if_by_cd(self, info: ShellInfo) -> bool:
        """Whether the shell, given PWD and OLDPWD, is as it would be after a ``cd`` from the one to the other."""
        if self.believes_oldpwd is None:
            return False
        version = tuple(map(int, re.findall(r"\d+", info.version)))
        return version >= self.believes_oldpwd

    def candidate(self, path: str, *, os: OperatingSystem = "linux") -> ShellCandidate:
        """Make the probe for one path on a host of some system."""
        probe = (
            self.probe if os != "windows" else self._argument(_PROBE_OF_ARGUMENTS.format(self.windows_probe))
        )
        return ShellCandidate(self.kind, path, (*self.options, "-c", probe))

    def _argument(self, text: str) -> str:
        """Make what has to be an argument on Windows so that the shell is given a text.

        The maker of a command line follows Microsoft's rules. MSYS2 and Cygwin read it by others: between double
        quotes a backslash stands for the one behind it, not only before a quote (``build_argv`` and ``globify`` in
        winsup/cygwin/dcrt0.cc), and of a word without quotes they make the names of files. A blank makes sure of those.
        """
        if self.reads_arguments == "as Windows":
            return text
        return " " + _BACKSLASHES.sub(lambda match: match[0] * 2, text)

    def _loader(self, snapshot: str) -> str:
        # The text is an argument, since it must not be parsed before the aliases are known. On one line, as below.
        return f'{self.load(snapshot)}; {self.builtin("eval")} "{self.builtin("shift")}; $1"'

    def _reader(self, snapshot: str | None) -> str:
        load = "" if snapshot is None else f"{self.load(snapshot)}; "
        evaluate, unset = ("eval", "unset") if snapshot is None else map(self.builtin, ("eval", "unset"))
        # Everything stands on one line, before the first line of the text, so that line numbers stay right.
        # The descriptor is closed and the variables are gone before the text begins, so that it finds what a
        # plain -c would find. ANYSHELL_TEXT is never exported: no program is started while it is set.
        return (
            f'ANYSHELL_TEXT={self.read} || ANYSHELL_TEXT=; case $ANYSHELL_TEXT in "") '
            'printf "%s\\n" "anyshell: the command could not be read from $ANYSHELL_SCRIPT" >&2; exit 126;; esac; '
            f"{self.close}{load}"
            f'{evaluate} "{unset} ANYSHELL_SCRIPT ANYSHELL_TEXT; ${{ANYSHELL_TEXT%{_END}}}"'
        )


_PROBE_OF_ARGUMENTS = "A='\\\\'; case ${{#A}} in 2) {};; esac"
"""Around a probe on Windows: no answer from a shell that reads arguments by another rule, and would be given other texts."""

# Not those before a quote, or the end: the maker of the command line doubles them.
_BACKSLASHES = re.compile(r'(?<!\\)\\++(?!["\\]|\Z)')


def _size(text: str) -> int:
    """Count the bytes of a text, but only when it matters: a character has four at most."""
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
"""The builtins that ``compgen -b`` of bash 5.2 names; those of 3.2 are among them."""

BASH = Shell(
    kind="bash",
    paths=_places("bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash"),
    programs=("bash",),
    packages=("bash",),
    # Neither matters to a plain -c. But bash reads ~/.bashrc for a -c whose stdin is a socket, as it is below
    # rshd, and Debian's also below sshd.
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
        r"%SystemDrive%\tools\msys64\usr\bin\bash.exe",  # Chocolatey's place for it
        r"%SystemDrive%\cygwin64\bin\bash.exe",
    ),
    windows_install="winget install Git.Git",
    # That of WSL says linux-gnu there, and cannot be made to say anything else: the array is read-only.
    windows_probe=(
        'case ${BASH_VERSINFO[5]-} in *-msys|*-cygwin) printf "anyshell %s\\n" "${BASH_VERSION%%(*}";; esac'
    ),
    read='$(<"$ANYSHELL_SCRIPT")',
    # A number before "<" must stand there literally, hence the eval; bash 3.2 of macOS has no {NAME}<&-.
    close='case $ANYSHELL_SCRIPT in /dev/fd/*) eval "exec ${ANYSHELL_SCRIPT##*/}<&-";; esac; ',
    believes_oldpwd=(4, 4),  # CHANGES, "between bash-4.4-alpha and bash-4.3-release"; 3.2 of macOS drops it
    builtins=frozenset(_BUILTINS_OF_BASH.split()),
)

ZSH = Shell(
    kind="zsh",
    paths=_places("zsh", "/usr/local/bin/zsh", "/opt/homebrew/bin/zsh"),
    programs=("zsh",),
    packages=("zsh",),
    # -f leaves out every startup file but /etc/zshenv, which no option can (zsh(1), STARTUP/SHUTDOWN FILES).
    options=("-f",),
    probe='case ${ZSH_VERSION-} in ?*) printf "anyshell %s\\n" "$ZSH_VERSION";; esac',
    windows_paths=("zsh", r"%SystemDrive%\msys64\usr\bin\zsh.exe"),
    windows_install="pacman -S zsh in MSYS2",
    windows_probe='case ${ZSH_VERSION-}:$OSTYPE in ?*:msys*|?*:cygwin*) printf "anyshell %s\\n" "$ZSH_VERSION";; esac',
    read='$(<"$ANYSHELL_SCRIPT")',
    # zsh takes a single digit before "<"; a larger number would be the name of a program to exec.
    close=(
        "case $ANYSHELL_SCRIPT in "
        "/dev/fd/*) ANYSHELL_SCRIPT=${ANYSHELL_SCRIPT##*/}; exec {ANYSHELL_SCRIPT}<&-;; esac; "
    ),
    # It sets OLDPWD to PWD when it starts, whatever it was given.
    believes_oldpwd=None,
)

SH = Shell(
    kind="sh",
    paths=_places("sh"),
    programs=("sh", "dash", "ash"),
    packages=("dash",),
    options=(),
    # Most have no version to tell. It is printed, not echoed from an argument: a stub cannot answer by luck.
    probe='printf "anyshell %s\\n" ""',
    windows_paths=("sh", r"%ProgramFiles%\Git\bin\sh.exe", r"%SystemDrive%\msys64\usr\bin\sh.exe"),
    windows_install="winget install Git.Git",
    windows_probe='printf "anyshell %s\\n" ""',
    read='$(command -p cat "$ANYSHELL_SCRIPT")',
    # POSIX promises nothing above descriptor 9, and dash takes a larger number for the name of a program. The
    # file stays open, read-only and unknown to the command.
    close="",
    # dash and busybox do; what else it is cannot be asked. syntax.py leaves the few texts that would notice alone.
    believes_oldpwd=(),
)

WSL = Shell(
    kind="wsl",
    paths=("wsl",),
    programs=("wsl",),
    packages=("wsl",),
    windows_paths=(r"%SystemRoot%\Sysnative\wsl.exe", r"%SystemRoot%\System32\wsl.exe"),
    windows_install="wsl --install",
    # Without a shell of WSL's own between, which would read the text first (wsl --help, --exec).
    options=("--exec", "/bin/bash", *BASH.options),
    probe=":",  # WSL is on Windows alone
    windows_probe=BASH.probe,
    reads_arguments="as Windows",
    read=BASH.read,
    close=BASH.close,
)
"""bash in the default distribution of the Windows Subsystem for Linux, started by Windows' ``wsl.exe``."""
