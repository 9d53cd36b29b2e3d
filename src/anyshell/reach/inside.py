"""The program that runs in a sandbox and starts the command there. A Python without anyshell runs this text.

The words up to ``--`` are options. At the descriptor ``status=FD`` the program reports its start, the signal that ended the
command, and the command's usage. ``errors=FD`` is the command's stderr, ``limit=NAME:NUMBER`` a limit on resources, and
``scope=BITS`` the scopes for Landlock. ``gate=PATH`` is the socket over which a listening socket is handed out: ``token=HEX``
identifies the sandbox, and ``port=NUMBER`` is the listening socket's port.

Without ``status=FD`` there is no other sandbox. The program then drops its own capabilities, lets Landlock allow the paths of
``read=PATH``, ``write=PATH`` and ``device=PATH``, and becomes the command.
"""

import posix as os  # the base of "os", whose import takes 1.5 ms
import sys

assert sys.platform != "win32"

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446

# The rights of Landlock since version 5: execute, write and read files, list and change directories, truncate, ioctl.
_ALL = 0xFFFF  # no bound
_OF_FILES = 0xC007  # no bound
_TRAFFIC = "/proc/self/io"
_ALLOWED = {"read": 0x000D, "write": _ALL, "device": 0x8006}


def version() -> int:
    """Return the version of Landlock's interface; 0 without Landlock."""
    import ctypes

    answer: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1)
    return max(0, answer)


def restrict(scope: int, allowed: "list[tuple[str, str]]") -> None:
    """Confine this process and its descendants by Landlock: to own sockets and signals, and to `allowed` paths if any."""
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    ruleset = struct.pack("=QQQ", _ALL if allowed else 0, 0, scope)
    # Root drops its capabilities first: otherwise root could mount and trace.
    if allowed and libc.capset(struct.pack("=Ii", 0x20080522, 0), bytes(24)):
        raise OSError(ctypes.get_errno(), "its capabilities stay")
    made = libc.syscall(_CREATE_RULESET, ruleset, len(ruleset), 0)
    if allowed and os.isatty(0):
        allowed.append(("device", os.ttyname(0)))
    for name, path in allowed:
        try:
            fd = os.open(path, 0o10000000 | os.O_NOFOLLOW | os.O_CLOEXEC)  # O_PATH
        except OSError:
            continue  # a path that has vanished needs no rule
        bits = _ALLOWED[name] if os.fstat(fd).st_mode & 0o170000 == 0o040000 else _ALLOWED[name] & _OF_FILES
        rule = struct.pack("=Qi", bits, fd)
        # A directory above the path may have become a link meanwhile.
        if os.readlink(f"/proc/self/fd/{fd}") == path and libc.syscall(_ADD_RULE, made, 1, rule, 0):
            raise OSError(ctypes.get_errno(), "Landlock: " + os.strerror(ctypes.get_errno()))
        os.close(fd)
    if made < 0 or libc.prctl(38, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, made, 0):
        raise OSError(ctypes.get_errno(), "Landlock: " + os.strerror(ctypes.get_errno()))
    os.close(made)


def hand_out(path: str, token: bytes, port: int) -> None:
    """Make a listening socket in this network namespace, hand the socket out, and close it here."""
    import _socket as socket  # type: ignore[import-not-found,unused-ignore]  # "socket" itself takes 5 ms for its enumerations

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    outside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    outside.connect(path)
    fd = listener.fileno().to_bytes(4, sys.byteorder)
    outside.sendmsg([token], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fd)])
    listener.close()
    if outside.recv(1) != b"\n":
        raise OSError(0, "its network is not served")
    outside.close()


def numbers(path: str) -> "list[int]":
    """Return the numbers in a file of the kernel; empty if the file cannot be opened."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return []
    words = os.read(file, 512).split()
    os.close(file)
    return [int(word) for word in words if word.isdigit()]


def waited(child: int, before: "list[int]") -> "tuple[int, list[int | str]]":
    """Wait for a command; return its wait status, and its usage with that of all processes that it waited for.

    The usage has the order of `told_usage`.

    Args:
        child: The pid of the command.
        before: The bytes that this program read and wrote before; the kernel adds the bytes of waited-for children.
    """
    _, ended = os.waitpid(child, 0)
    now = numbers(_TRAFFIC)
    traffic = [now[0] - before[0], now[1] - before[1]] if now and before else "--"
    memory = 0
    try:
        import resource  # missing in a Python without its standard library
    except ImportError:
        pass
    else:
        own, most = (
            resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        # The child is a copy of this program until exec, so its peak starts at this program's memory.
        memory = most * 1024 if most > 2 * own else 0
    # Count all pids since the command's own, of threads as well. The pids wrap around after the largest one.
    last = numbers("/proc/sys/kernel/ns_last_pid")
    started = last[0] - child + 1 if last and last[0] >= child else 0
    *_, user, system, _ = os.times()
    return ended, [int(user * 1000), int(system * 1000), started or "-", memory or "-", *traffic]


def become(command: "list[str]", given: "list[tuple[str, str]]", status: "int | None") -> None:
    """Become the command, within its limits; on failure, write the reason to stderr and exit with 126."""
    import _signal as signal  # type: ignore[import-not-found,unused-ignore]  # "signal" itself takes 4 ms for its enumerations

    options = dict(given)
    try:
        if "gate" in options:
            hand_out(options["gate"], bytes.fromhex(options["token"]), int(options["port"]))
        for name, value in given:
            if name == "limit":
                import resource

                limit, _, most = value.partition(":")
                number = getattr(resource, "RLIMIT_" + limit)
                # The hard limit of CPU is above the soft limit, so that SIGXCPU comes before SIGKILL.
                resource.setrlimit(number, (int(most), int(most) + (limit == "CPU")))
        if "scope" in options:
            restrict(int(options["scope"]), [each for each in given if each[0] in _ALLOWED])
        # Python ignores the first two signals, and the programs that wait for the command ignore the others; the command
        # gets the default for all of them.
        names = ["SIGPIPE", "SIGXFSZ"]
        if status is not None:
            names += ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"]
            os.close(status)
        for name in names:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.execve(command[0], command, os.environ)
    except OSError as error:
        os.write(2, f"anyshell: {command[0]} cannot be run in its sandbox: {error.strerror}\n".encode())
    os._exit(126)


def main(words: "list[str]") -> None:
    """Start the command."""
    at = words.index("--")
    given = [(name, value) for name, _, value in (word.partition("=") for word in words[:at])]
    command, options = words[at + 1 :], dict(given)
    if "status" not in options:
        become(command, given, None)
    status, errors = int(options["status"]), int(options["errors"])
    # ANYSHELL_USED is for the leader, which reports the usage there: the command gets neither variable nor descriptor.
    used = os.environ.pop(b"ANYSHELL_USED", b"")
    if used:
        os.close(int(used))
    os.dup2(errors, 2)
    os.close(errors)
    os.write(status, b"begun\n")
    before = numbers(_TRAFFIC)
    child = os.fork()
    if not child:
        become(command, given, status)
    # This program must not hold descriptors that the command closes.
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    ended, used_there = waited(child, before)
    number = ended & 127
    os.write(status, (" ".join(map(str, [number, *used_there])) + "\n").encode())
    os._exit(128 + number if number else ended >> 8)


if __name__ == "__main__":
    if sys.argv[1:] == ["facts"]:
        from os.path import realpath

        major, minor = sys.version_info[:2]
        sys.stdout.write(f"{version()} {major}.{minor} {realpath(sys.executable)}\n")
    else:
        main(sys.argv[1:])
