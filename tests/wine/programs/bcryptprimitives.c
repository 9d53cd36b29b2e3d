/* The library of which Wine 8 has none, and that programs written in Rust load: random numbers. */

#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID data, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{
    const ULONG most = 1 << 30;

    for (; size > most; data += most, size -= most)
        if (!SystemFunction036(data, most))
            return FALSE;
    return SystemFunction036(data, (ULONG)size);
}
