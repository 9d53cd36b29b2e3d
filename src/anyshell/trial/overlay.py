"""The program that mounts an overlay over a directory, and then executes another program, which sees the overlay.

A Python without anyshell runs the text of this module. The program's arguments are the directory, the upper layer, the work
directory of overlayfs, and the other program with its arguments. The mount is in a separate mount namespace, so the kernel
removes the mount with the last process in that namespace.
"""

import ctypes
import os
import sys

_CLONE_NEWUSER, _CLONE_NEWNS = 0x10000000, 0x20000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000


def _check(answer: int, what: str) -> None:
    if answer:
        number = ctypes.get_errno()
        os.write(2, os.fsencode(f"anyshell: {what}: {os.strerror(number)}\n"))
        os._exit(125)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def main(words: "list[str]") -> None:
    """Mount the overlay, and execute the program."""
    libc = ctypes.CDLL(None, use_errno=True)
    directory, upper, work, *program = words
    ids = [(name, getattr(os, f"gete{name}")()) for name in ("uid", "gid")]
    _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "no user namespace can be made")
    _write("/proc/self/setgroups", "deny")
    for name, number in ids:
        _write(f"/proc/self/{name}_map", f"{number} {number} 1")
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mounts cannot be made private")
    # Paths by descriptors, since a path may contain characters with a meaning in the options.
    places = [os.open(path, os.O_RDONLY) for path in (directory, upper, work)]
    options = "userxattr,lowerdir={},upperdir={},workdir={}".format(*(f"/proc/self/fd/{fd}" for fd in places))
    mounted = libc.mount(b"overlay", os.fsencode(directory), b"overlay", 0, options.encode())
    _check(mounted, f"overlayfs cannot be mounted with its upper layer in {os.path.dirname(upper)}")
    os.execv(program[0], program)  # noqa: S606 - its words are those of the caller


if __name__ == "__main__":
    main(sys.argv[1:])
