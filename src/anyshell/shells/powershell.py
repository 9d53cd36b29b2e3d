"""PowerShell 7 and Windows PowerShell 5.1: quoting, and the command line for a text.

A command runs as ``PWSH … -EncodedCommand BASE64``: no character has a meaning to any program in between. The encoded text is
a frame around the command's text. The frame sets PowerShell's encodings to UTF-8, parses the text, and runs it in the global
scope as if the text had been typed there. The text keeps its line numbers, and its changes to the scope stay.

By itself PowerShell exits with 1 whenever the last command failed. The frame ends with the exit code of a program that failed
last. If a cmdlet fails after the program, the code is 1 again: to distinguish the two, the frame looks up the names of the
last statement's commands. If a name is a function, whose inside cannot be seen, the program's code counts. A text that leaves
by ``return``, or has ``begin``, ``process`` and ``end``, ends with 0 unless an error ends it.

stdin is left untouched, so programs find every byte of it, unless the text contains ``$input``: then all lines of stdin are
read first, and programs find nothing.

On Windows a command line holds 32,767 characters (CreateProcessW). A longer text travels in a UTF-8 file, which the variable
``ANYSHELL_SCRIPT`` names, and is read before any of it runs.
"""

from __future__ import annotations

import base64
import ntpath
import re
from typing import TYPE_CHECKING, NamedTuple

from anyshell._exceptions import InvalidCommand
from anyshell._types import ShellCandidate

from .batch import BATCH_FILE, NO_PERCENT, SWITCHES, for_cmd, is_batch_file, is_plain, join_for_cmd
from .posix import Launch
from .windows import LONGEST_COMMAND_LINE, fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anyshell._types import OperatingSystem, ShellInfo, ShellKind

_OPTIONS = ("-NoLogo", "-NoProfile")
_NO_PROMPTS = ("-NonInteractive",)

# Text, since PowerShell sends errors as XML when its command is encoded and stderr is not a terminal. None, since PowerShell
# would otherwise read stdin while programs do, and wait for its end.
_FORMATS = ("-InputFormat", "None", "-OutputFormat", "Text")

# Unquoted because no PowerShell gives them a meaning, at any place of a command.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")

# The typographic quotes are quotes to PowerShell. A doubled quote stands for itself.
_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")

# A run of backslashes up to a quote or the end; not from the middle of a run, so no argument takes long.
_BEFORE_QUOTE = re.compile(r'(?<!\\)(\\*+)("|\Z)')

_NO_BATCH_FILES = (".exe", ".com", ".ps1")
"""Suffixes of names that are never a batch file's. Any other name may get a batch suffix by PATHEXT."""

_INPUT = re.compile(r"\$\{?input\b", re.IGNORECASE)

# Runs after the text, in its scope: the ending must set nothing there, and work under any preference and in strict mode.
ENDING = """
if (-not $?) { & {
    $code = $ExecutionContext.SessionState.PSVariable.GetValue('LASTEXITCODE');
    foreach ($name in @NAMES@) {
        $found = if ($name) { $ExecutionContext.InvokeCommand.GetCommand($name, 'All') };
        if ($found -is [Management.Automation.AliasInfo]) { $found = $found.ResolvedCommand };
        if ($code -and $found -isnot [Management.Automation.CmdletInfo]) { return @TAKE@($code) }
    };
    @TAKE@(1)
} }
"""
"""Passes the exit code of a text to ``@TAKE@``, unless the code is 0; ``@NAMES@`` are the names of the last commands."""

# Uses statements of the language: the first cmdlet of a module makes PowerShell look for the module, and a pipeline is
# compiled, which together take a sixth of a start.
NAMES = """
$last = $null;
foreach ($last in $tree.EndBlock.Statements) { };
$names = if ($last) {
    foreach ($each in $last.FindAll({ $args[0] -is [Management.Automation.Language.CommandAst] }, $true)) {
        "'" + [Management.Automation.Language.CodeGeneration]::EscapeSingleQuotedStringContent($each.GetCommandName()) + "'"
    }
};
$names = '@(' + (@($names) -join ',') + ')';
"""
"""Joins the names of a syntax tree's last commands to one text, for `ENDING`."""

# All on one line: an error that names its caller's place, as Write-Error does, would show the other lines.
_FRAME = """
$OutputEncoding = [Text.UTF8Encoding]::new($false);
try { [Console]::InputEncoding = [Console]::OutputEncoding = $OutputEncoding } catch { $Error.Clear() };
$ProgressPreference = 'SilentlyContinue';
@STYLE@
@INPUT@ . (& {
    $text = @TEXT@;
    $tokens = $errors = $null;
    $tree = [Management.Automation.Language.Parser]::ParseInput($text, [ref]$tokens, [ref]$errors);
    if ($errors) { throw [Management.Automation.ParseException]::new($errors) };
    if (-not $tree.EndBlock.Unnamed) { return [scriptblock]::Create($text) };
    @NAMES_OF_TREE@
    [scriptblock]::Create($text + (@END@).Replace('@NAMES@', $names))
})
"""

LINES = (
    "$reader = [IO.StreamReader]::new([Console]::OpenStandardInput(), $OutputEncoding); "
    "while ($null -ne ($line = $reader.ReadLine())) { $line }"
)
"""Outputs the lines of stdin, for ``$input``."""

# On Windows the process that opened the file will delete it, and shares the file only with openers that allow that.
_FROM_FILE = (
    "try { $file = [IO.File]::Open($env:ANYSHELL_SCRIPT, 'Open', 'Read', 'ReadWrite, Delete'); "
    "$bytes = [IO.MemoryStream]::new(); $file.CopyTo($bytes); $file.Dispose(); "
    "$OutputEncoding.GetString($bytes.ToArray()) } catch { "
    '[Console]::Error.WriteLine("anyshell: the command could not be read from $env:ANYSHELL_SCRIPT"); exit 126 }; '
    "Remove-Item -LiteralPath env:ANYSHELL_SCRIPT"
)


def fill(template: str, **parts: str) -> str:
    """Replace the names in a program, as in ``@NAME@``, by texts, and put the program itself on one line."""
    return re.sub("@([A-Z_]+)@", lambda match: parts.get(match[1], match[0]), " ".join(template.split()))


def reads_input(text: str) -> bool:
    """Return whether a text contains ``$input``, and so needs the lines of stdin."""
    return _INPUT.search(text) is not None


class PowerShell(NamedTuple):
    """One of the two PowerShells, with everything that is particular to it.

    Attributes:
        kind: The language of the shell.
        paths: The usual paths, in the order of preference; a bare name is looked up on the host's PATH.
        programs: The names under which a program speaks this language.
        packages: The names of packages with the shell, for a message.
        windows_paths: The usual paths on Windows, likewise; see `ShellCandidate`.
        windows_install: The command that installs the shell on Windows, for a message.
        answers: A condition that holds in this PowerShell alone.
        style: A statement that keeps colours out of the output; empty when not needed.
        passes_literally: Whether a program gets an argument unchanged. Windows PowerShell puts quotes around an argument with
            a blank, and does not escape the quotes in it.
        unset: Variables that must not reach the shell unless the caller sets them.
    """

    kind: ShellKind
    paths: tuple[str, ...]
    programs: tuple[str, ...]
    packages: tuple[str, ...]
    windows_paths: tuple[str, ...]
    windows_install: str
    answers: str
    style: str
    passes_literally: bool
    unset: frozenset[str] = frozenset()

    def quote(self, text: str) -> str:
        """Quote any text as one literal word of a command line."""
        return text if _PLAIN.match(text) else self.literal(text)

    def join(self, arguments: Iterable[str]) -> str:
        """Make a command line of a program and its arguments; the shell interprets none of them.

        The program gets every argument unchanged; a cmdlet of Windows PowerShell would get some arguments with more quotes. A
        batch file is started by ``cmd.exe``, whose rules for arguments differ from PowerShell's. So for a batch file, or a
        program that might be one on Windows, arguments with a meaning to ``cmd.exe`` are quoted for ``cmd.exe``.

        Raises:
            InvalidCommand: The program is a batch file, and an argument holds an end of line.
        """
        program, *rest = arguments
        words = rest if self.passes_literally else list(map(_escaped, rest))
        plainly = " ".join(("&", self.literal(program), *map(self._argument, words)))
        # To cmd.exe a % in the path of the batch file also names a variable.
        means_itself = "%" not in program and all(map(is_plain, rest))
        if means_itself or program.lower().endswith(_NO_BATCH_FILES):
            return plainly
        if is_batch_file(program) and ntpath.dirname(program):
            return self._by_cmd(self.literal(f'"{for_cmd(program)}" {join_for_cmd(rest)} '))
        found = f"$ExecutionContext.InvokeCommand.GetCommand({self.literal(program)}, 'All').Path"
        try:
            given = self.literal(f'" {join_for_cmd(rest)} ')
            by_cmd = self._by_cmd(f"('\"' + {found}.Replace('%', '{NO_PERCENT}') + {given})")
        except InvalidCommand as error:
            if is_batch_file(program):
                raise
            by_cmd = f"throw {self.literal(str(error))}"
        # Only PowerShell knows which suffix of PATHEXT applies on that host.
        return f"if ({found} -match '{BATCH_FILE}') {{ {by_cmd} }} else {{ {plainly} }}"

    def _by_cmd(self, line: str) -> str:
        # Both PowerShells put quotes around an argument with a blank outside of quotes, as always here, and change nothing
        # else in an argument of cmd.exe.
        return rf'& "$env:SystemRoot\System32\cmd.exe" {SWITCHES} {line}'

    def launch(
        self,
        info: ShellInfo,
        text: str,
        *,
        snapshot: str | None = None,
        before: Sequence[str] = (),
        terminal: bool = False,
    ) -> Launch:
        """Return the launch of a shell that runs a text.

        Args:
            info: The shell; its path is used unchanged.
            text: Without a NUL byte; of any size. An empty text is a command that succeeds.
            snapshot: Must be ``None``: PowerShell has no snapshots.
            before: The words that will stand before the shell.
            terminal: Whether the shell has a terminal. With a terminal it may ask, as ``Read-Host`` does; otherwise a
                question fails at once.

        Returns:
            A script when the command line would be longer than Windows allows. A shell that cannot read the script says so
            and exits with 126.
        """
        assert snapshot is None
        asks = () if terminal else _NO_PROMPTS
        start = (info.path, *_OPTIONS, *asks, *_FORMATS, "-EncodedCommand")
        if len(text) < LONGEST_COMMAND_LINE:  # otherwise not even its letters fit
            launch = Launch((*start, self._encoded(text, self.literal(text))))
            if fits((*before, *launch.argv)):
                return launch
        return Launch((*start, self._encoded(text, _FROM_FILE)), text)

    def argv(self, info: ShellInfo, program: str) -> tuple[str, ...]:
        """Return the argument list of a shell that runs a program of anyshell, its last argument. Nothing in it may prompt."""
        return (info.path, *_OPTIONS, *_NO_PROMPTS, *_FORMATS, "-EncodedCommand", _base64(program))

    def lets_through(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the variables that make other variables reach the shell: none, since all do."""
        return {}

    def starts_as_if_by_cd(self, info: ShellInfo) -> bool:
        """Return whether a start in a directory is like a ``cd`` to it: false, since PowerShell texts have no ``cd … &&``."""
        return False

    def candidate(self, path: str, *, os: OperatingSystem = "linux") -> ShellCandidate:
        """Return the probe for one path: it prints ``anyshell <version>``, and nothing in any other shell."""
        probe = f"if ({self.answers}) {{ 'anyshell ' + $PSVersionTable.PSVersion }}"
        return ShellCandidate(self.kind, path, (*_OPTIONS, *_NO_PROMPTS, *_FORMATS, "-Command", probe))

    def _argument(self, word: str) -> str:
        # Even quoted, "--%" is not passed on, and the words behind it are not literal any more.
        return "@('--%')" if word == "--%" else self.quote(word)

    def literal(self, text: str) -> str:
        """Put any text between quotes, as one word."""
        return "'" + _QUOTES.sub(r"\1\1", text) + "'"

    def _encoded(self, text: str, source: str) -> str:
        # The line feeds end a comment, and complete a line after a backtick. The frame does not call exit, since a table
        # that is being printed would be lost.
        end = "\n\n" + fill(ENDING, TAKE="$Host.SetShouldExit")
        frame = fill(
            _FRAME,
            STYLE=self.style,
            INPUT=f"& {{ {LINES} }} | " if reads_input(text) else "",
            TEXT=source,
            NAMES_OF_TREE=fill(NAMES),
            END=self.literal(end),
        )
        return _base64(frame)


def _base64(program: str) -> str:
    return base64.b64encode(program.encode("utf-16-le", "surrogatepass")).decode()


def _escaped(argument: str) -> str:
    """Escape an argument so that Windows PowerShell passes it to a program unchanged.

    Windows PowerShell quotes an argument with a blank outside of quotes, drops an empty argument, and passes on all others
    unchanged. So the quotes are put here, by the rules of the C library that removes them: a run of backslashes is literal
    unless a quote follows it.
    """
    if argument and '"' not in argument and not any(char.isspace() for char in argument):
        return argument
    return '"' + _BEFORE_QUOTE.sub(lambda match: match[1] * 2 + ('\\"' if match[2] else ""), argument) + '"'


PWSH = PowerShell(
    kind="pwsh",
    paths=("pwsh", "/usr/local/bin/pwsh", "/opt/homebrew/bin/pwsh", "/opt/microsoft/powershell/7/pwsh"),
    programs=("pwsh",),
    packages=("powershell",),
    windows_paths=("pwsh", r"%ProgramW6432%\PowerShell\7\pwsh.exe", r"%ProgramFiles%\PowerShell\7\pwsh.exe"),
    windows_install="winget install Microsoft.PowerShell",
    # From 7.3 on, programs get their arguments literally. Older versions are not maintained any more.
    answers=(
        "$PSVersionTable.PSEdition -eq 'Core' -and "
        "$PSVersionTable.PSVersion.Major * 100 + $PSVersionTable.PSVersion.Minor -ge 703"
    ),
    style="$PSStyle.OutputRendering = 'PlainText';",
    passes_literally=True,
)

WINDOWS_POWERSHELL = PowerShell(
    kind="powershell",
    paths=("powershell",),
    programs=("powershell",),
    packages=("powershell",),
    windows_paths=(r"%SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe", "powershell"),
    windows_install="it is a part of Windows 10 and 11: turn Windows PowerShell on under optional features",
    answers=(
        "$PSVersionTable.PSEdition -eq 'Desktop' -and "
        "$PSVersionTable.PSVersion.Major * 100 + $PSVersionTable.PSVersion.Minor -ge 501"
    ),
    style="",
    passes_literally=False,
    # PowerShell 7 puts its own modules there, which do not load here; without it the machine's setting counts.
    unset=frozenset({"PSModulePath"}),
)
