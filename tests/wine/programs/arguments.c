/* Prints its arguments as they were cut up by the C library: each as UTF-8 in hexadecimal, on a line of its own. */

#include <stdio.h>
#include <windows.h>

int _CRT_glob = 0; /* mingw's start-up would expand wildcards, which nothing else on Windows does */

int wmain(int count, wchar_t **arguments)
{
    static char text[200000];

    for (int each = 1; each < count; each++) {
        int length = WideCharToMultiByte(CP_UTF8, 0, arguments[each], -1, text, sizeof text, NULL, NULL);
        for (int at = 0; at < length - 1; at++)
            printf("%02x", (unsigned char)text[at]);
        puts(".");
    }
    return 0;
}
