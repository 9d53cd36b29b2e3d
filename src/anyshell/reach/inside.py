"""The program that runs in a sandbox and starts the command there. A Python that knows nothing of anyshell runs its text.

Its words, up to ``--``: at ``status=FD`` it tells that it begins, by which signal the command ended, and what it used; ``errors=FD`` is the
standard error of the command, ``limit=NAME:NUMBER`` a limit on resources, and ``scope=BITS`` is for Landlock. ``gate=PATH`` is
where a listening socket is handed out: ``token=HEX`` says whose it is, and ``port=NUMBER`` is its port.

Without ``status=FD`` there is no other sandbox. It takes its capabilities from itself, lets Landlock allow what ``read=PATH``,
``write=PATH`` and ``device=PATH`` name, and becomes the command.
"""

import posix as os  # what "os" is made of, which takes 1.5 ms itself
import sys

assert sys.platform != "win32"

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446

# The rights of Landlock since version 5: to execute, write and read files, to list directories, ten changes of these, to truncate, ioctl.
_ALL = 0xFFFF  # no bound
_OF_FILES = 0xC007  # no bound
_TRAFFIC = "/proc/self/io"
_ALLOWED = {"read": 0x000D, "write": _ALL, "device": 0x8006}


def version() -> int:
    """The version of Landlock's interface; 0 where there is none."""
    import ctypes

    answer: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1)
    return max(0, answer)


def restrict(scope: int, allowed: "list[tuple[str, str]]") -> None:
    """Keep this process, and what it starts, to sockets and signals of its own, and to paths if any is allowed, by Landlock."""
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    ruleset = struct.pack("=QQQ", _ALL if allowed else 0, 0, scope)
    # The first makes a root without capabilities of root, which would else mount and trace.
    if allowed and libc.capset(struct.pack("=Ii", 0x20080522, 0), bytes(24)):
        raise OSError(ctypes.get_errno(), "its capabilities stay")
    made = libc.syscall(_CREATE_RULESET, ruleset, len(ruleset), 0)
    if allowed and os.isatty(0):
        allowed.append(("device", os.ttyname(0)))
    for name, path in allowed:
        try:
            fd = os.open(path, 0o10000000 | os.O_NOFOLLOW | os.O_CLOEXEC)  # O_PATH
        except OSError:
            continue  # what has vanished needs no rule
        bits = _ALLOWED[name] if os.fstat(fd).st_mode & 0o170000 == 0o040000 else _ALLOWED[name] & _OF_FILES
        rule = struct.pack("=Qi", bits, fd)
        # A directory above it may have become a link meanwhile.
        if os.readlink(f"/proc/self/fd/{fd}") == path and libc.syscall(_ADD_RULE, made, 1, rule, 0):
            raise OSError(ctypes.get_errno(), "Landlock: " + os.strerror(ctypes.get_errno()))
        os.close(fd)
    if made < 0 or libc.prctl(38, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, made, 0):
        raise OSError(ctypes.get_errno(), "Landlock: " + os.strerror(ctypes.get_errno()))
    os.close(made)


def hand_out(path: str, token: bytes, port: int) -> None:
    """Make a listening socket in this network, hand it out, and keep nothing of it."""
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
    """The numbers of a file of the kernel; none where it does not tell."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return []
    words = os.read(file, 512).split()
    os.close(file)
    return [int(word) for word in words if word.isdigit()]


def waited(child: int, before: "list[int]") -> "tuple[int, list[int | str]]":
    """Wait for a command; how it ended, and what it and all that it has waited for used: see `told_usage`.

    Args:
        child: The pid of the command.
        before: The bytes that this program has read and written so far; the bytes of processes that it waits for count as well.
    """
    _, ended = os.waitpid(child, 0)
    now = numbers(_TRAFFIC)
    traffic = [now[0] - before[0], now[1] - before[1]] if now and before else "--"
    memory = 0
    try:
        import resource  # a Python without its library has none
    except ImportError:
        pass
    else:
        own, most = (
            resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        # It was a copy of this program until it became the command, and its peak began with that.
        memory = most * 1024 if most > 2 * own else 0
    # All pids since the command's own, of threads as well; they begin again after the greatest.
    last = numbers("/proc/sys/kernel/ns_last_pid")
    started = last[0] - child + 1 if last and last[0] >= child else 0
    *_, user, system, _ = os.times()
    return ended, [int(user * 1000), int(system * 1000), started or "-", memory or "-", *traffic]


def become(command: "list[str]", given: "list[tuple[str, str]]", status: "int | None") -> None:
    """Become the command, within its limits; say why if that fails."""
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
                # Above the soft one, so that SIGXCPU comes before SIGKILL.
                resource.setrlimit(number, (int(most), int(most) + (limit == "CPU")))
        if "scope" in options:
            restrict(int(options["scope"]), [each for each in given if each[0] in _ALLOWED])
        # Python ignores the first two; what waits for the command has ignored the others, which are not asked of it.
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
    # Neither is for the command: the leader says there what that has used.
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
