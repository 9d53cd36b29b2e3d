"""A script for Windows: plain PowerShell with its own quoting, exit codes and errors. pwsh also runs on other systems."""

import anyshell

outcome = anyshell.run("'one two', 'three' | ForEach-Object { $_.Length }", shell="pwsh", timeout=60)
print(outcome.output.text.split())

outcome = anyshell.run("Get-Item C:\\no-such-file -ErrorAction Stop", shell="pwsh", timeout=60)
print(outcome.exit_code, "no-such-file" in outcome.output.text)

outcome = anyshell.run("Write-Output 'before'; exit 5", shell="pwsh", timeout=60)
print(outcome.exit_code, outcome.output.text.strip())
