/* Runs a program with a hidden console, as anyshell does on Windows: without one, pwsh.exe says nothing.

   What stands behind our own name on the command line is the program's command line, to the last character. Our
   stdin, stdout and stderr are its own. When we are killed, so is everything that it has started.

   Under Wine, one of some thousand starts fails on a busy machine, or PowerShell ends at once with 0, before it has loaded
   what it needs. Nothing has run then, so the start is tried again. */

#include <stdio.h>
#include <wchar.h>
#include <windows.h>
#include <psapi.h>

#define STARTS 5
#define PAUSE 200 /* milliseconds */
#define LOOK 20   /* milliseconds */
#define LOADED (64 * 1024 * 1024) /* bytes of memory; PowerShell has 87 MB when it has printed no more than its version */

/* Wait until PowerShell is loaded; TRUE at once for another program. FALSE when PowerShell has ended with 0 before. */
static BOOL has_begun(HANDLE process, const wchar_t *line)
{
    PROCESS_MEMORY_COUNTERS memory;
    DWORD code;

    if (!wcsstr(line, L"pwsh.exe"))
        return TRUE;
    while (WaitForSingleObject(process, LOOK) == WAIT_TIMEOUT)
        if (!GetProcessMemoryInfo(process, &memory, sizeof memory) || memory.WorkingSetSize > LOADED)
            return TRUE;
    return !GetExitCodeProcess(process, &code) || code != 0;
}

int main(void)
{
    wchar_t *line = GetCommandLineW();
    BOOL quoted = FALSE;
    STARTUPINFOW startup = {sizeof startup};
    PROCESS_INFORMATION process;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    DWORD code;

    for (; *line && (quoted || (*line != ' ' && *line != '\t')); line++)
        if (*line == '"')
            quoted = !quoted;
    while (*line == ' ' || *line == '\t')
        line++;

    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    startup.dwFlags = STARTF_USESTDHANDLES;
    startup.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    startup.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    startup.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    for (int starts = 1;; starts++) {
        if (CreateProcessW(NULL, line, NULL, NULL, TRUE, CREATE_NO_WINDOW | CREATE_SUSPENDED, NULL, NULL, &startup,
                           &process)) {
            AssignProcessToJobObject(job, process.hProcess);
            ResumeThread(process.hThread);
            if (has_begun(process.hProcess, line))
                break;
        }
        if (starts == STARTS) {
            fprintf(stderr, "the program was not started: error %lu of Windows\n", GetLastError());
            return 127;
        }
        Sleep(PAUSE);
    }

    /* Ours, that is: who reads what the program prints waits for its end and not for ours. */
    CloseHandle(startup.hStdInput);
    CloseHandle(startup.hStdOutput);
    CloseHandle(startup.hStdError);
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);

    /* What it has left behind goes on, as it would on Windows. */
    limits.BasicLimitInformation.LimitFlags = 0;
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    return code;
}
