/* Keeps Wine and its desktop alive until stdin ends, and says when they are.

   Otherwise the first program of all starts both, and the desktop keeps that program's stderr open for a second after
   its end. */

#include <windows.h>

int main(void)
{
    char buffer[64];
    DWORD count;

    GetDesktopWindow();
    WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), "ready\n", 6, &count, NULL);
    while (ReadFile(GetStdHandle(STD_INPUT_HANDLE), buffer, sizeof buffer, &count, NULL) && count > 0)
        ;
    return 0;
}
