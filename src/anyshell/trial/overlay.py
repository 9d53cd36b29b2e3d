"""The program that lays an overlay over a directory, and becomes another program that sees it.

A Python that knows nothing of anyshell runs its text. Its words are the directory, the upper layer, the work directory of
overlayfs, and the program with its arguments. The mount is in namespaces of its own, so it is gone with the last process in there.
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
    """Mount, and become the program."""
    libc = ctypes.CDLL(None, use_errno=True)
    directory, upper, work, *program = words
    ids = [(name, getattr(os, f"gete{name}")()) for name in ("uid", "gid")]
    _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "no user namespace can be made")
    _write("/proc/self/setgroups", "deny")
    for name, number in ids:
        _write(f"/proc/self/{name}_map", f"{number} {number} 1")
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mounts cannot be made private")
    # By descriptors, since a path may hold what means something in the options.
    places = [os.open(path, os.O_RDONLY) for path in (directory, upper, work)]
    options = "userxattr,lowerdir={},upperdir={},workdir={}".format(*(f"/proc/self/fd/{fd}" for fd in places))
    mounted = libc.mount(b"overlay", os.fsencode(directory), b"overlay", 0, options.encode())
    _check(mounted, f"overlayfs cannot be mounted with its upper layer in {os.path.dirname(upper)}")
    os.execv(program[0], program)  # noqa: S606 - its words are those of the caller


if __name__ == "__main__":
    main(sys.argv[1:])
