# Print the facts of a Windows host, in lines that `FactLines` of `facts.py` reads. PowerShell 5.1 and later. On stdin come
# the questions, from `WindowsHost.facts`: their length, then texts and counts. Four bytes before each text have its length.

$ErrorActionPreference = 'SilentlyContinue'
$ProgressPreference = 'SilentlyContinue'
Set-StrictMode -Off

& {
    $stdin = [Console]::OpenStandardInput()
    $stdout = [Console]::OpenStandardOutput()

    function Read-Bytes([int]$count) {
        $bytes = [byte[]]::new($count)
        for ($at = 0; $at -lt $count; $at += $got) {
            $got = $stdin.Read($bytes, $at, $count - $at)
            if ($got -le 0) { [Environment]::Exit(1) }
        }
        , $bytes
    }
    $questions = [IO.BinaryReader]::new([IO.MemoryStream]::new((Read-Bytes ([BitConverter]::ToInt32((Read-Bytes 4), 0)))))
    function Read-Text { [Text.Encoding]::UTF8.GetString($questions.ReadBytes($questions.ReadInt32())) }
    function Write-Line([string]$line) {
        $bytes = [Text.Encoding]::UTF8.GetBytes(($line -replace '[\r\n]', ' ') + "`n")
        $stdout.Write($bytes, 0, $bytes.Length)
    }
    function Write-Fact([string]$name, $value) { if ("$value") { Write-Line "fact $name $value" } }
    function Find-Program([string]$name) {
        $found = $ExecutionContext.InvokeCommand.GetCommand($name, 'Application')
        if ($found) { $found.Path }
    }
    # Find a bash other than WSL's, which is below System32 or WindowsApps, and runs another system's programs.
    function Find-Bash {
        $roots = @(Find-Program 'git.exe' | ForEach-Object { Split-Path (Split-Path $_) })
        $roots += @('HKLM:\SOFTWARE\GitForWindows', 'HKCU:\SOFTWARE\GitForWindows', 'HKLM:\SOFTWARE\WOW6432Node\GitForWindows' |
                ForEach-Object { (Get-ItemProperty -LiteralPath $_).InstallPath })
        $roots += "$env:ProgramFiles\Git", "$env:LOCALAPPDATA\Programs\Git", 'C:\msys64'
        foreach ($root in $roots) {
            foreach ($each in 'bin', 'usr\bin') {
                if ($root -and [IO.File]::Exists("$root\$each\bash.exe")) { return "$root\$each\bash.exe" }
            }
        }
        $ExecutionContext.InvokeCommand.GetCommands('bash.exe', 'Application', $true) | ForEach-Object { $_.Path } |
            Where-Object { $_ -notmatch '\\(system32|sysnative|windowsapps)\\' } | Select-Object -First 1
    }

    Write-Line "$(Read-Text) facts"
    $version = [Environment]::OSVersion.Version
    $arch = if ($env:PROCESSOR_ARCHITEW6432) { $env:PROCESSOR_ARCHITEW6432 } else { $env:PROCESSOR_ARCHITECTURE }
    $home_directory = [Environment]::GetFolderPath('UserProfile')
    Write-Fact system Windows_NT
    Write-Fact arch $arch
    Write-Fact name 'Windows'
    Write-Fact version "$($version.Major).$($version.Minor).$($version.Build)"
    Write-Fact hostname ([Environment]::MachineName)
    Write-Fact user ([Environment]::UserName)
    Write-Fact home $home_directory
    # Read the OEM code page where GetOEMCP reads it.
    Write-Fact page ([Microsoft.Win32.Registry]::GetValue('HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Nls\CodePage', 'OEMCP', ''))

    $directory = Read-Text
    if ($directory -match '^~(?=[\\/]|$)') { $directory = $home_directory + $directory.Substring(1) }
    if (-not $directory) { $directory = [Environment]::CurrentDirectory }
    elseif (-not [IO.Directory]::Exists($directory)) { Write-Fact wrong $directory }
    Write-Fact directory $directory

    for ($left = $questions.ReadInt32(); $left -gt 0; $left--) {
        $name = Read-Text
        $found = Find-Program $name
        if ($found) { Write-Fact program "$name $found" }
    }

    for ($left = $questions.ReadInt32(); $left -gt 0; $left--) {
        $name = Read-Text
        if ($null -ne [Environment]::GetEnvironmentVariable($name)) { Write-Fact variable $name }
    }

    $own = [Diagnostics.Process]::GetCurrentProcess().MainModule.FileName
    for ($left = $questions.ReadInt32(); $left -gt 0; $left--) {
        $kind, $wanted, $arguments, $probe = (Read-Text), (Read-Text), (Read-Text), (Read-Text)
        $path = [Environment]::ExpandEnvironmentVariables($wanted)
        if ($path -notmatch '[\\/]') { $path = if ($path -eq 'bash') { Find-Bash } else { Find-Program $path } }
        elseif (-not [IO.File]::Exists($path)) { $path = '' }
        if (-not $path) { Write-Fact tried "${wanted}: not found"; continue }
        $path = $path.Replace('/', '\')
        if ($path -eq $own) {
            $said = & ([scriptblock]::Create($probe)) # it is this shell, which answers
        } else {
            $start = [Diagnostics.ProcessStartInfo]::new($path, $arguments)
            $start.UseShellExecute = $false
            $start.RedirectStandardInput = $start.RedirectStandardOutput = $start.RedirectStandardError = $true
            $process = [Diagnostics.Process]::Start($start)
            if (-not $process) { Write-Fact tried "${path}: it cannot be started"; continue }
            $process.StandardInput.Close()
            $reading = $process.StandardOutput.ReadToEndAsync()
            $process.BeginErrorReadLine()
            if (-not $reading.Wait(10000)) {
                $process.Kill()
                Write-Fact tried "${path}: no answer within 10 s"
                continue
            }
            $said = $reading.Result
        }
        if ("$said" -match '(?m)^anyshell ?(.*?)\r?$') {
            Write-Fact kind $kind
            Write-Fact shell $path
            Write-Fact answer $Matches[1]
            break
        }
        Write-Fact tried "${path}: it runs, but does not answer as $kind does"
    }
    Write-Line 'fact end'
    $stdout.Flush()

    # Become the leader of the first command: read the leader's text and run it. Otherwise the client closes the channel.
    . ([scriptblock]::Create([Text.Encoding]::UTF8.GetString((Read-Bytes ([BitConverter]::ToInt32((Read-Bytes 4), 0))))))
}
