"""The program for a persistent PowerShell, which runs one text after another and reports the end of each.

The shell starts not with a prompt but with a program of anyshell, the host, as an encoded command. The host reads one line
for each command, and runs the text in a second runspace, the session's: as a prompt would, in the global scope, with the
errors among the output. Meanwhile the host reads on, so it can be told to stop the text: ``Pipeline.StopAsync`` ends the text
between two statements, or in a cmdlet that heeds the request, and the text's changes stay.

Programs that a text starts inherit the standard handles of the process. So the host sets the handles to other pipes for each
command (SetStdHandle). PowerShell's own output goes there by a stream whose target changes: PowerShell's host takes the
console's writers only once. The functions of Windows and that stream are made by Reflection.Emit, since a compiler
(``Add-Type``) takes a second. Given variables are set by such a function, too: except in the newest version, .NET removes a
variable that is set to an empty value.

The end of a command is reported on the process's original stderr, which no started program inherits.
"""

from __future__ import annotations

import base64
import ntpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .powershell import ENDING, LINES, NAMES, fill, reads_input

if TYPE_CHECKING:
    from anyshell._types import ShellInfo

    from .frame import Frame
    from .powershell import PowerShell

HISTORY = 100
"""Texts that ``Get-History`` returns in a session of PowerShell, unless a text sets ``$MaximumHistoryCount``."""

_FILES = "Microsoft.PowerShell.Core\\FileSystem::"
"""The prefix that makes a path a file path in every location of the shell, such as the registry."""

# All on one line, and without double quotes: the text is part of an encoded command, whose length is bounded.
_HOST = r"""
$ErrorActionPreference = 'Stop';
$utf8 = [Text.UTF8Encoding]::new($false);
try { [Console]::InputEncoding = [Console]::OutputEncoding = $utf8 } catch { };
@STYLE@
$lines = [IO.StreamReader]::new([Console]::OpenStandardInput(), $utf8);
$voice = [Console]::OpenStandardError();
function Say([string] $text) {
    $bytes = $utf8.GetBytes($text + [char]0);
    $voice.Write($bytes, 0, $bytes.Length);
    $voice.Flush()
};
function Read([string] $word) { $utf8.GetString([Convert]::FromBase64String($word)) };

$module = [Reflection.Emit.AssemblyBuilder]::DefineDynamicAssembly('anyshell', 'Run').DefineDynamicModule('anyshell');
$kernel = $module.DefineType('AnyshellKernel', 'Public');
foreach ($each in @(
    @('GetStdHandle', [IntPtr], @([int])),
    @('SetStdHandle', [bool], @([int], [IntPtr])),
    @('SetHandleInformation', [bool], @([IntPtr], [int], [int])),
    @('CreateFileW', [IntPtr], @([string], [int], [int], [IntPtr], [int], [int], [IntPtr])),
    @('SetEnvironmentVariableW', [bool], @([string], [string]))
)) {
    $kernel.DefinePInvokeMethod(
        $each[0], 'kernel32.dll', 'Public, Static, PinvokeImpl', 'Standard', $each[1], $each[2], 'Winapi', 'Unicode'
    ).SetImplementationFlags('PreserveSig')
};
$kernel = $kernel.CreateType();
$type = $module.DefineType('AnyshellStream', 'Public', [IO.Stream]);
$target = $type.DefineField('Target', [IO.Stream], 'Public');
foreach ($each in [IO.Stream].GetMethods()) {
    if (-not $each.IsAbstract) { continue };
    $types = [type[]]@($each.GetParameters() | ForEach-Object ParameterType);
    $code = $type.DefineMethod($each.Name, 'Public, Virtual, HideBySig', $each.ReturnType, $types).GetILGenerator();
    $code.Emit([Reflection.Emit.OpCodes]::Ldarg_0);
    $code.Emit([Reflection.Emit.OpCodes]::Ldfld, $target);
    for ($at = 1; $at -le $types.Count; $at++) { $code.Emit([Reflection.Emit.OpCodes]::Ldarg, [int16]$at) };
    $code.Emit([Reflection.Emit.OpCodes]::Callvirt, $each);
    $code.Emit([Reflection.Emit.OpCodes]::Ret)
};
$type = $type.CreateType();

foreach ($each in -10, -11, -12) { [void]$kernel::SetHandleInformation($kernel::GetStdHandle($each), 1, 0) };
$nul = $kernel::CreateFileW('NUL', -1073741824, 3, [IntPtr]::Zero, 3, 0, [IntPtr]::Zero);
[void]$kernel::SetHandleInformation($nul, 1, 1);
$printed = foreach ($each in 'SetOut', 'SetError') {
    $stream = [Activator]::CreateInstance($type);
    $stream.Target = [IO.Stream]::Null;
    $writer = [IO.StreamWriter]::new($stream, $utf8);
    $writer.AutoFlush = $true;
    [Console]::$each($writer);
    $stream
};
$open = [Collections.Generic.List[IDisposable]]::new();
function Open([long] $number, [IO.Pipes.PipeDirection] $direction) {
    $handle = [Microsoft.Win32.SafeHandles.SafePipeHandle]::new([IntPtr]$number, $true);
    $pipe = [IO.Pipes.AnonymousPipeClientStream]::new($direction, $handle);
    $open.Add($pipe);
    $pipe
};
function Set-Streams($in, $out, $err) {
    $at = -10;
    foreach ($each in $in, $out, $err) {
        $handle = if ($each) { $each.SafePipeHandle.DangerousGetHandle() } else { $nul };
        [void]$kernel::SetStdHandle($at--, $handle)
    };
    $printed[0].Target = if ($out) { $out } else { [IO.Stream]::Null };
    $printed[1].Target = if ($err) { $err } else { [IO.Stream]::Null };
    [Console]::SetIn([IO.StreamReader]::new($(if ($in) { $in } else { [IO.Stream]::Null }), $utf8))
};
function Close-Streams {
    Set-Streams;
    foreach ($each in $open) { try { $each.Dispose() } catch { } };
    $open.Clear()
};

$runspace = [Management.Automation.Runspaces.RunspaceFactory]::CreateRunspace(
    $Host, [Management.Automation.Runspaces.InitialSessionState]::CreateDefault2()
);
$runspace.ApartmentState = [Threading.Thread]::CurrentThread.GetApartmentState();
$runspace.ThreadOptions = 'ReuseThread';
$runspace.Open();
$runspace.SessionStateProxy.SetVariable('ProgressPreference', 'SilentlyContinue');
$runspace.SessionStateProxy.SetVariable('OutputEncoding', $utf8);
$runspace.SessionStateProxy.SetVariable('PROFILE', $PROFILE);
$runspace.SessionStateProxy.SetVariable('MaximumHistoryCount', @HISTORY@);

function Invoke-Ours([string] $text, $given) {
    $ours = $runspace.CreatePipeline($text);
    try {
        if ($PSBoundParameters.ContainsKey('given')) { [void]$ours.Input.Write($given) };
        $ours.Input.Close();
        $ours.Invoke()
    } finally { $ours.Dispose() }
};
function Show-Error($reason) {
    $record = if ($reason.ErrorRecord) { $reason.ErrorRecord } else {
        [Management.Automation.ErrorRecord]::new($reason, 'anyshell', 'NotSpecified', $null)
    };
    $record = [psobject]::AsPSObject($record);
    $record.PSObject.Properties.Add([psnoteproperty]::new('writeErrorStream', $true));
    try { [void](Invoke-Ours '$input | Out-Default' $record) } catch { }
};
function Say-Variables([string] $number) {
    $all = [Environment]::GetEnvironmentVariables();
    Say ('variables ' + $number + [char]0 + (@($all.Keys | ForEach-Object { $_ + '=' + $all[$_] + [char]0 }) -join ''))
};
function End-Command($code, [string] $interrupted) {
    [Environment]::SetEnvironmentVariable($marked, $null);
    if ($dumps) { Say-Variables $number };
    Close-Streams;
    Say (
        'ended ' + $number + ' ' + $code + ' ' + $interrupted + [char]9 +
        $runspace.SessionStateProxy.Path.CurrentFileSystemLocation.ProviderPath
    )
};
$ending = @ENDING@;
$hidden = [Reflection.BindingFlags]'NonPublic, Instance';
$console = $Host.GetType().GetProperty('ExternalHost', $hidden).GetValue($Host);
$leaving = $console.GetType().GetProperty('ShouldEndSession', $hidden);
$context = $runspace.GetType().GetProperty('ExecutionContext', $hidden).GetValue($runspace);
$success = $context.GetType().GetProperty('QuestionMarkVariableValue', $hidden);
$pipeline = $null;
Set-Streams;
Say ('shell ' + $PID);
$line = $lines.ReadLineAsync();
while ($true) {
    $handles = @(([IAsyncResult]$line).AsyncWaitHandle);
    if ($pipeline) { $handles += $pipeline.Output.WaitHandle };
    if ([Threading.WaitHandle]::WaitAny($handles) -eq 0) {
        if ($null -eq $line.Result) { break };
        $word, $to, $stdin, $stdout, $stderr, $directory, $mark, $given, $dump, $reads, $text = $line.Result.Split(' ');
        $line = $lines.ReadLineAsync();
        if ($word -eq 'stop') {
            if ($pipeline -and $to -eq $number) {
                $pipeline.StopAsync();
                $stopping = $pipeline.GetType().GetProperty('IsStopping', $hidden);
                while (-not $stopping.GetValue($pipeline) -and $pipeline.PipelineStateInfo.State -eq 'Stopping') {
                    [Threading.Thread]::Sleep(0)
                };
                Say ('stopping ' + $number)
            };
            continue
        };
        $number = $to;
        $marked = $mark;
        $dumps = $dump -eq '1';
        $problem = 'pipe';
        try {
            $in = if ($stdin -ne '-') { Open $stdin 'In' };
            $out = Open $stdout 'Out';
            $err = if ($stderr -ne '-') { Open $stderr 'Out' } else { $out };
            [Environment]::SetEnvironmentVariable($marked, '1');
            if ($dumps) { Say-Variables $number };
            foreach ($each in (Read $given) -split [char]0 -ne '') {
                $name, $value = $each.Split([char[]]'=', 2);
                if ($null -eq $value) { [Environment]::SetEnvironmentVariable($name, [NullString]::Value); continue };
                if (-not $kernel::SetEnvironmentVariableW($name, $value)) { throw $name }
            };
            if ($directory -ne '-') {
                $problem = 'cwd';
                [void]$runspace.SessionStateProxy.Path.SetLocation([WildcardPattern]::Escape((Read $directory)))
            };
            $problem = ''
        } catch { };
        if ($problem) {
            $dumps = $false;
            End-Command $problem;
            continue
        };
        Say ('begun ' + $number);
        Set-Streams $in $out $err;
        $text = Read $text;
        $tokens = $errors = $null;
        $tree = [Management.Automation.Language.Parser]::ParseInput($text, [ref]$tokens, [ref]$errors);
        if ($errors) {
            Show-Error ([Management.Automation.ParseException]::new($errors));
            End-Command 1;
            continue
        };
        @NAMES_OF_TREE@
        if (-not $text.Contains('$?')) { $success.SetValue($context, $true) };
        $pipeline = $runspace.CreatePipeline($text, $true);
        $pipeline.Commands[0].MergeMyResults('Error', 'Output');
        if ($reads -eq '1') {
            $pipeline.Commands.Insert(0, [Management.Automation.Runspaces.Command]::new(@LINES@, $true, $true))
        };
        $pipeline.Commands.Add('Out-Default');
        $pipeline.Input.Close();
        $pipeline.InvokeAsync();
        continue
    };
    [void]$pipeline.Output.NonBlockingRead();
    $state = $pipeline.PipelineStateInfo;
    if ($state.State -in 'Running', 'Stopping') { continue };
    $pipeline.Dispose();
    $pipeline = $good = $null;
    while ($null -eq $good) { try { $good = $runspace.SessionStateProxy.GetVariable('?') } catch { [Threading.Thread]::Sleep(1) } };
    if ($leaving.GetValue($console)) { break };
    if ($state.State -eq 'Completed') {
        $code = if (-not $good) { @(Invoke-Ours ($ending.Replace('@NAMES@', $names)))[0] };
        End-Command $(if ($null -eq $code) { 0 } else { $code })
    } elseif ($state.State -eq 'Stopped') {
        End-Command 1 'i'
    } else {
        Show-Error $state.Reason;
        End-Command 1
    }
};
if ($runspace.Events.Subscribers.Count) { try { [void](Invoke-Ours 'New-Event PowerShell.Exiting') } catch { } };
$runspace.Close();
Close-Streams
"""


@dataclass(frozen=True, slots=True)
class PowerShellConversation:
    """The conversation with one persistent PowerShell, which is given pipes as handles.

    Args:
        shell: One of the two PowerShells.
    """

    shell: PowerShell

    @property
    def life_fd(self) -> int:
        """No descriptor: all programs of a command inherit the pipe as a handle, whose number does not identify it."""
        return -1

    @property
    def says_back(self) -> bool:
        """False: PowerShell reports the end of a command only when it is back at its input."""
        return False

    @property
    def unwinds_by_programs(self) -> bool:
        """False: a line tells PowerShell to stop."""
        return False

    @property
    def skips_lines(self) -> bool:
        """False: a line tells PowerShell to stop."""
        return False

    @property
    def numbers_statuses(self) -> bool:
        """False: no status is kept where a text could change it."""
        return False

    def argv(self, info: ShellInfo) -> tuple[str, ...]:
        """Return the argument list of the shell."""
        host = fill(
            _HOST,
            STYLE=self.shell.style,
            HISTORY=str(HISTORY),
            NAMES_OF_TREE=fill(NAMES),
            ENDING=self.shell.quote(fill(ENDING, TAKE="")),
            LINES=self.shell.quote(LINES),
        )
        return self.shell.argv(info, host)

    def begin(self, snapshot: str | None, word: str) -> str:
        """Return the first input of the shell: empty. PowerShell has no snapshots."""
        assert snapshot is None
        return ""

    def tell_pid(self) -> str:
        """Return no text: PowerShell reports its pid unasked."""
        return ""

    def line(
        self, number: int, run: str = "", command: str | None = None, *, back: str, redefined: bool = True
    ) -> str:
        """Return the line that makes the shell run a command.

        Args:
            number: The number of the command, which stands in `run` as well.
            run: The text that `run` returned.
            command: The text of the command.
            back: Not used here.
            redefined: Not used here.
        """
        assert command is not None
        return f"{run} {int(reads_input(command))} {_word(command)}\n"

    @staticmethod
    def run_file(number: int) -> str:
        """Return an unused name: everything is in the line."""
        return "run"

    def run(self, frame: Frame) -> str:
        """Return the words that surround a command."""
        pipes = (frame.stdin, frame.stdout, frame.stderr)
        words = [
            "run",
            str(frame.number),
            *("-" if pipe is None else pipe for pipe in pipes),
            "-" if frame.cwd is None else _word(_place(frame.cwd)),
            frame.mark,
            _word("\0".join(n if v is None else f"{n}={v}" for n, v in frame.env.items())),
            str(int(frame.variables)),
        ]
        return " ".join(words)

    def again(self, number: int, back: str) -> str:
        """Return no text: PowerShell always reports the end."""
        return ""

    def interrupt(self, number: int) -> str:
        """Return the line that stops a command, or keeps it from beginning; the shell confirms the stop."""
        return f"stop {number}\n"

    def exit_code(self, answer: int) -> int:
        """Return the exit code of a command, given the number that the shell has reported: as on Windows, without a sign."""
        return answer & 0xFFFF_FFFF

    def stays_interruptible(self, text: str) -> bool:
        """Return true: no text can change how the host stops texts."""
        return True

    def text(self, text: str) -> tuple[str, bool]:
        """Return the unchanged text."""
        return text, False

    def needs_care(self, text: str) -> bool:
        """Return false: only the text itself is traced."""
        return False

    def redefines(self, text: str) -> bool:
        """Return false: a text cannot redefine the words that control the shell."""
        return False


def _word(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def _place(directory: str) -> str:
    return directory if ntpath.splitdrive(directory)[0].endswith(":") else _FILES + directory
