# The leader: starts one program on Windows, holds every process that the program starts, and ends these processes on
# request, or when the client is gone. PowerShell 5.1 and later. The leader may be started before its command is known. Then
# the client sends the order (`WindowsHost._order`), and after the order requests of at most 64 KiB. A request is a letter,
# the length of its body in four bytes, and the body.
#
#   I  input for the program; the answer `took N` means that N bytes were written to the program, or never can be
#   E  end of the input
#   S  a number; the answer `living NUMBER PID NAME SECONDS ...` lists the living processes
#   K  end every process
#
# Answers go to stderr, each on a line that begins with the token. The end of stdin means K; it comes when the channel is
# closed or the connection is lost. The program and its descendants are in a job object, and no other process has a handle
# of the job object. So Windows ends these processes when the leader ends, for whatever reason (KILL_ON_JOB_CLOSE). The
# leader runs as long as any of these processes is alive.

$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
Set-StrictMode -Off

& {
    $stdin = [Console]::OpenStandardInput()
    $stderr = [Console]::OpenStandardError()
    $marshal = [Runtime.InteropServices.Marshal]
    $size = [IntPtr]::Size

    # Declare functions of Windows by reflection: Add-Type would start a compiler, which takes a second.
    $type = [Reflection.Emit.AssemblyBuilder]::DefineDynamicAssembly(
        [Reflection.AssemblyName]'anyshell', [Reflection.Emit.AssemblyBuilderAccess]::Run
    ).DefineDynamicModule('anyshell').DefineType('Windows', 'Public,Class')
    $P = [IntPtr]; $I = [uint32]; $B = [bool]; $S = [string]
    foreach ($each in @(
            @('CreateJobObjectW', $P, @($P, $P)),
            @('SetInformationJobObject', $B, @($P, $I, $P, $I)),
            @('QueryInformationJobObject', $B, @($P, $I, $P, $I, $P)),
            @('AssignProcessToJobObject', $B, @($P, $P)),
            @('TerminateJobObject', $B, @($P, $I)),
            @('CreateProcessW', $B, @($P, $P, $P, $P, $B, $I, $P, $S, $P, $P)),
            @('ResumeThread', $I, @(,$P)),
            @('GetExitCodeProcess', $B, @($P, $P)),
            @('TerminateProcess', $B, @($P, $I)),
            @('GetCurrentProcess', $P, @()),
            @('GetStdHandle', $P, @(,[int])),
            @('SetHandleInformation', $B, @($P, $I, $I)),
            @('CloseHandle', $B, @(,$P)),
            @('SetEnvironmentVariableW', $B, @($S, $S))
        )) {
        $method = $type.DefinePInvokeMethod(
            $each[0], 'kernel32.dll', 'Public,Static,PinvokeImpl', 'Standard', $each[1], [type[]]$each[2], 'Winapi', 'Unicode'
        )
        $method.SetImplementationFlags('PreserveSig')
    }
    $windows = $type.CreateType()

    # End this process at once: the threads that read and write, for which it could wait, never end.
    function Leave { [void]$windows::TerminateProcess($windows::GetCurrentProcess(), 0) }

    function Read-Bytes([int]$count) {
        $bytes = [byte[]]::new($count)
        for ($at = 0; $at -lt $count; $at += $got) {
            $got = $stdin.Read($bytes, $at, $count - $at)
            if ($got -le 0) { Leave }
        }
        , $bytes
    }

    # The order: texts, each after its length. The order is not JSON, since PowerShell 7 takes some texts in JSON for dates.
    $order = [IO.BinaryReader]::new([IO.MemoryStream]::new((Read-Bytes ([BitConverter]::ToInt32((Read-Bytes 4), 0)))))
    function Read-Text { [Text.Encoding]::UTF8.GetString($order.ReadBytes($order.ReadInt32())) }
    $token = Read-Text
    $line = Read-Text
    $program = Read-Text
    $directory = Read-Text
    $script = Read-Text
    $feeds, $splits = $order.ReadBoolean(), $order.ReadBoolean()

    function Write-Line($to, [string]$words) {
        $bytes = [Text.Encoding]::UTF8.GetBytes("$token $words`n")
        $to.Write($bytes, 0, $bytes.Length)
        $to.Flush()
    }
    $file = $null
    function Remove-Script {
        if ($file) { try { [IO.File]::Delete($file) } catch { $Error.Clear() } }
    }
    # Every way out removes the file of the script, even a half-written one, before the end is reported.
    function Stop-Here([string]$words) { Remove-Script; Write-Line $stderr $words; Leave }

    for ($left = $order.ReadInt32(); $left -gt 0; $left--) {
        [void]$windows::SetEnvironmentVariableW((Read-Text), [NullString]::Value)
    }
    for ($left = $order.ReadInt32(); $left -gt 0; $left--) {
        $name = Read-Text
        if (-not $windows::SetEnvironmentVariableW($name, (Read-Text))) { Stop-Here "variable $name" }
    }
    if (-not [IO.Directory]::Exists($directory)) {
        Stop-Here $(if ([IO.File]::Exists($directory)) { 'cwd file' } else { 'cwd missing' })
    }
    if ($program.Contains('\') -and -not [IO.File]::Exists($program)) { Stop-Here 'program' }

    if ($script) {
        try {
            # The temporary directory is the user's own: of other users, only the host's administrators may read it.
            $file = [IO.Path]::Combine([IO.Path]::GetTempPath(), 'anyshell-' + [guid]::NewGuid().ToString('N'))
            [IO.File]::WriteAllText($file, $script, [Text.UTF8Encoding]::new($false))
        } catch { Stop-Here 'script' }
        [void]$windows::SetEnvironmentVariableW('ANYSHELL_SCRIPT', $file)
    }

    $job = $windows::CreateJobObjectW([IntPtr]::Zero, [IntPtr]::Zero)
    $limits = $marshal::AllocHGlobal(144)
    $marshal::Copy([byte[]]::new(144), 0, $limits, 144)
    $marshal::WriteInt32($limits, 16, 0x2000) # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
    $length = if ($size -eq 8) { 144 } else { 112 }
    if (-not $windows::SetInformationJobObject($job, 9, $limits, $length)) { Stop-Here 'job' }

    $feed = [IO.Pipes.AnonymousPipeServerStream]::new('Out', 'Inheritable')
    $out = $windows::GetStdHandle(-11)
    $err = $windows::GetStdHandle(-12)
    # A handle that a process inherits by accident would keep the channel open.
    [void]$windows::SetHandleInformation($windows::GetStdHandle(-10), 1, 0)
    [void]$windows::SetHandleInformation($out, 1, 1)
    [void]$windows::SetHandleInformation($err, 1, [uint32]$splits)

    # Fill in STARTUPINFOW; CreateProcessW fills in PROCESS_INFORMATION ($made).
    $first = if ($size -eq 8) { 80 } else { 56 }
    $startup = $marshal::AllocHGlobal(128)
    $made = $marshal::AllocHGlobal(32)
    $marshal::Copy([byte[]]::new(128), 0, $startup, 128)
    $marshal::WriteInt32($startup, 0, $first + 3 * $size)
    $marshal::WriteInt32($startup, 4 * $size + 28, 0x100) # STARTF_USESTDHANDLES
    $marshal::WriteIntPtr($startup, $first, $feed.ClientSafePipeHandle.DangerousGetHandle())
    $marshal::WriteIntPtr($startup, $first + $size, $out)
    $marshal::WriteIntPtr($startup, $first + 2 * $size, $(if ($splits) { $err } else { $out }))
    # The program is suspended (4) until it is in the job object: so no process that the program starts can escape.
    if (-not $windows::CreateProcessW([IntPtr]::Zero, $marshal::StringToHGlobalUni($line), [IntPtr]::Zero, [IntPtr]::Zero,
            $true, 4, [IntPtr]::Zero, $directory, $startup, $made)) {
        Stop-Here 'program'
    }
    $process = $marshal::ReadIntPtr($made, 0)
    $thread = $marshal::ReadIntPtr($made, $size)
    $number = $marshal::ReadInt32($made, 2 * $size)
    $feed.DisposeLocalCopyOfClientHandle()
    if (-not $windows::AssignProcessToJobObject($job, $process)) {
        [void]$windows::TerminateProcess($process, 1)
        Stop-Here 'job'
    }
    if (-not $feeds) { $feed.Dispose() }
    Write-Line ([Console]::OpenStandardOutput()) "started $number"
    Write-Line $stderr 'started'
    [void]$windows::ResumeThread($thread)
    [void]$windows::CloseHandle($thread)

    $members = $marshal::AllocHGlobal(65536)
    function Get-Living {
        # 3 is JobObjectBasicProcessIdList.
        if ($windows::QueryInformationJobObject($job, 3, $members, 65536, [IntPtr]::Zero)) {
            for ($at = 0; $at -lt $marshal::ReadInt32($members, 4); $at++) {
                [int64]$marshal::ReadIntPtr($members, 8 + $at * $size)
            }
        }
    }
    function Get-Described($numbers) {
        foreach ($each in $numbers) {
            try {
                $found = [Diagnostics.Process]::GetProcessById($each)
                $since = try { $found.StartTime.ToFileTimeUtc() / 1e7 - 11644473600 } catch { 0 }
                # conhost is the program of a console window, not one of the command's.
                if ($found.ProcessName -ne 'conhost') {
                    [string]::Format([cultureinfo]::InvariantCulture, '{0} {1} {2:f3}', $each,
                        ($found.ProcessName -replace '\s', '_'), $since)
                }
            } catch { $Error.Clear() } # it has ended meanwhile
        }
    }

    $ended = [Threading.ManualResetEvent]::new($false)
    $ended.SafeWaitHandle = [Microsoft.Win32.SafeHandles.SafeWaitHandle]::new($process, $false)
    $queue = [Collections.Queue]::new()
    $piece = [byte[]]::new(65536)
    $held = [byte[]]::new(262144)
    $have = 0
    $reading = $stdin.ReadAsync($piece, 0, $piece.Length)
    $writing = $null
    $written = 0
    $exited = $stopping = $finished = $false
    $gone = 0

    # Wait for a request, for the end of a write to the program, and for the program's end. After the program's end, check
    # every 10 or 50 ms whether any process in the job object is still alive.
    while ($true) {
        $waits = @(
            if ($reading) { $reading.AsyncWaitHandle }
            if ($writing) { $writing.AsyncWaitHandle }
            if (-not $exited) { $ended }
        )
        $pause = if ($stopping) { 10 } elseif ($exited) { 50 } else { -1 }
        if ($waits) { [void][Threading.WaitHandle]::WaitAny($waits, $pause) } else { Start-Sleep -Milliseconds $pause }

        if ($reading -and $reading.IsCompleted) {
            $got = if ($reading.Status -eq 'RanToCompletion') { $reading.Result } else { 0 }
            if ($got -le 0) {
                $reading = $null
                $stopping = $true
                [void]$windows::TerminateJobObject($job, 1)
            } else {
                [Buffer]::BlockCopy($piece, 0, $held, $have, $got)
                $have += $got
                # $held begins with $have bytes of requests that are not handled yet.
                while ($have -ge 5) {
                    $length = [BitConverter]::ToInt32($held, 1)
                    if ($have -lt 5 + $length) { break }
                    $verb = [char]$held[0]
                    $body = [byte[]]::new($length)
                    [Buffer]::BlockCopy($held, 5, $body, 0, $length)
                    $have -= 5 + $length
                    [Buffer]::BlockCopy($held, 5 + $length, $held, 0, $have)
                    if ($verb -ceq 'I') { $queue.Enqueue($body) }
                    elseif ($verb -ceq 'E') { $finished = $true }
                    elseif ($verb -ceq 'K') {
                        $stopping = $true
                        [void]$windows::TerminateJobObject($job, 1)
                    } elseif ($verb -ceq 'S') {
                        $about = [Text.Encoding]::ASCII.GetString($body)
                        Write-Line $stderr ((@('living', $about) + @(Get-Described (Get-Living))) -join ' ')
                    }
                }
                $reading = $stdin.ReadAsync($piece, 0, $piece.Length)
            }
        }

        # At most one write runs at a time, and input stays in the order of the requests.
        if ($writing -and $writing.IsCompleted) {
            if ($writing.Status -ne 'RanToCompletion') { $feeds = $false } # its reader is gone
            $writing = $null
            Write-Line $stderr "took $written"
        }
        while (-not $writing -and $queue.Count) {
            $body = $queue.Dequeue()
            $written = $body.Length
            if ($feeds) { $writing = $feed.WriteAsync($body, 0, $written) } else { Write-Line $stderr "took $written" }
        }
        if ($finished -and -not $writing -and -not $queue.Count) {
            $finished = $false
            $feeds = $false
            $feed.Dispose()
        }

        if (-not $exited -and $ended.WaitOne(0)) {
            $exited = $true
            Remove-Script
            [void]$windows::GetExitCodeProcess($process, $made)
            $words = if ($stopping) { 'stopped' } else { 'exited ' + $marshal::ReadInt32($made, 0) }
            if (-not @(Get-Described (Get-Living)).Count) { Stop-Here "$words gone" }
            Write-Line $stderr $words
        } elseif ($exited -and -not @(Get-Described (Get-Living)).Count) { Stop-Here 'gone' }
    }
}
