"""What every test may use."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn

import anyio
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import settings

import anyshell
from anyshell import Environment
from anyshell._types import ShellCandidate, ShellInfo
from anyshell.backends import connect
from anyshell.backends.local.backend import LocalBackend

from .ssh_server import SSHD, Server, embedded, is_root, openssh, ordinary_user
from .systems import (
    COMPUTED,
    LEFT_OUT_ON_WINDOWS,
    LONGEST,
    NOT_QUICK,
    ONE_WINE,
    POSIX_TEXTS,
    REQUIRED,
    SYSTEM,
    UNDER_WINE,
)
from .wine import windows
from .wine.parts import MissingPartError, is_possible

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from anyshell.abc import Backend

    from .wine.windows import Windows

for _name in ("SIGHUP", "SIGINT", "SIGQUIT"):
    # A run of the tests below nohup, or in the background of a script, has them ignored, and so would all programs
    # that they start.
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)

if SYSTEM == "wine":
    # Linux runs the same files, perhaps at the same time: what is compiled of them names each as its own system does.
    sys.pycache_prefix = tempfile.mkdtemp(prefix="compiled-")

    from hypothesis.internal import scrutineer

    # Packages stand beside Python here: all of them would be looked through for constants, as the project is.
    scrutineer.SITE_PACKAGES_DIRS.add(Path(pytest.__file__).resolve().parents[1])

if sys.platform != "win32":
    # Programs of the tests draw for the terminal that a test gives them, whatever the tests were started on: tox passes
    # no TERM on, and a machine without a person before it has none.
    os.environ["TERM"] = "xterm-256color"
    for _name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        os.environ.pop(_name, None)

settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")  # a test asserts no time, and these machines are busy
settings.register_profile("few", settings.get_profile("ci"), max_examples=20)
"""For Wine, where everything takes longer and nothing is found by luck that is not found here: it knows no deadline."""

REMOTE_BY_SSH = ("sftp", "sftp-asyncssh", "no-sftp")
"""Implementations of a host's files (`file_hosts`) that a server of SSH stands behind."""

HANG_SECONDS = 180
"""Until a test that its timeout has not ended, since what cleans up after it hangs, ends the process that runs it. pytest-xdist
then reports the test as failed, and starts another process."""

LONGEST_IN_A_NAME = 200
"""Characters or bytes of a parameter that stand in a test's name."""

OWN_DIRECTORY = pytest.StashKey[str]()
"""The directory that a run as root made for itself."""

NOBODY = 65534
"""A user id that owns nothing."""


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private directories are made."""
    path = tmp_path / "private"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


class _LeftOut(pytest.Module):
    """A module that is not even imported: it may need what this system has not."""

    def collect(self) -> NoReturn:
        reason = LEFT_OUT_ON_WINDOWS.get(self.path.stem, "it computes, and Linux and Windows do the same")
        pytest.skip(f"{self.name}: {reason}", allow_module_level=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer what takes minutes instead of a quarter of an hour."""
    parser.addoption("--quick", action="store_true", help="only what needs no SSH, no Wine and no programs")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give a run as root a directory of its own, for `open_to_all`.

    All runs of a user share ``pytest-of-root`` otherwise, and each that starts closes it to other users again
    (`pytest.TempPathFactory.getbasetemp`).
    """
    if is_root() and not config.option.basetemp and "PYTEST_DEBUG_TEMPROOT" not in os.environ:
        config.option.basetemp = config.stash[OWN_DIRECTORY] = tempfile.mkdtemp(prefix="pytest-")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove the directory of a run that passed; what a failed test leaves is there to be looked at."""
    own = session.config.stash.get(OWN_DIRECTORY, None)
    if own is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(own, ignore_errors=True)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long values by their length: a test's name becomes a variable, and that may not be as long as a text may."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_IN_A_NAME:
        return f"{argname} of {len(val)}"
    return None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Leave out what is not for this system."""
    left_out = sys.platform == "win32" and module_path.stem in LEFT_OUT_ON_WINDOWS
    if left_out or (SYSTEM == "wine" and module_path.stem in COMPUTED):
        return _LeftOut.from_parent(parent, path=module_path)
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Give what `ONE_WINE` names to one worker, and each other module to one, as ``--dist loadfile`` does."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-not-found,import-untyped,unused-ignore]

    class OneWine(LoadFileScheduling):  # type: ignore[misc,unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "one Wine" if Path(file).stem in ONE_WINE else file

    config.option.loadscopereorder = False  # `_longest_first` has ordered them
    return OneWine(config, log)


def _is_quick(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    if {item.path.stem, f"{item.path.stem}::{item.originalname}"}.intersection(NOT_QUICK):
        return False
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = [value for value in values if isinstance(value, str)]
    if any(name in REMOTE_BY_SSH for name in names):
        return False
    here = any(name.startswith("local") or name == "fake" for name in names)
    return "powershell" not in item.fixturenames and (here or "ssh_host" not in item.fixturenames)


def _longest_first(items: list[pytest.Item]) -> None:
    """Put what takes long before the rest, in which modules of many tests come first; a module's own tests stay in order."""
    ranks = {name: rank for rank, name in enumerate(LONGEST, 1)} | dict.fromkeys(ONE_WINE, 0)
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (ranks.get(item.path.stem, len(ranks)), -counts[item.path], item.path))


def _asks_windows(item: pytest.Item) -> bool:
    asking = UNDER_WINE.get(item.path.stem)
    return asking is None or (isinstance(item, pytest.Function) and item.originalname in asking)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not quick, and the tests whose commands are for a shell that is not the default one here."""
    if config.getoption("quick"):
        slow = [item for item in items if not _is_quick(item)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if _is_quick(item)]
    if SYSTEM == "wine":
        same = [item for item in items if not _asks_windows(item)]
        config.hook.pytest_deselected(items=same)
        items[:] = [item for item in items if _asks_windows(item)]
    if hasattr(config, "workerinput"):
        _longest_first(items)
    if sys.platform != "win32":
        return
    for item in items:
        names = POSIX_TEXTS.get(item.path.stem, ())
        if not isinstance(item, pytest.Function):
            continue
        if {item.name, item.originalname, *item.fixturenames}.intersection(names):
            item.add_marker(pytest.mark.skip("its commands are texts of a POSIX shell"))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Have one worker of several compile the tests, with their assertions rewritten, which takes 9 s; the others wait."""
    if sys.platform == "win32" or not hasattr(session.config, "workerinput"):
        return (yield)
    import fcntl

    tests = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(tests, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(tests, fcntl.LOCK_SH)
        return (yield)
    finally:
        os.close(tests)


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of every collection of garbage to come: it stays, and is a million objects."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the process where a test hangs, with the stacks of its threads: a timeout raises in a test once, and no more."""
    _guard(item.config)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Guard on after a failure, at which pytest's own plugin cancels what was to come."""
    if isinstance(node, pytest.Item):
        _guard(node.config)


def _guard(config: pytest.Config) -> None:
    # Where pytest's own plugin writes: what a test writes to is captured, and lost with the process.
    stderr = config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=stderr)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many modules were left out; which, and why, stands above, among all that was skipped."""
    skipped = terminalreporter.stats.get("skipped", ())
    modules = sum(isinstance(report, pytest.CollectReport) for report in skipped)
    if modules:
        terminalreporter.write_line(
            f"left out: {modules} modules, and {len(skipped) - modules} tests of others"
        )


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


_STATES = itertools.count()
"""Names of the tests' directories for what is kept."""


@pytest.fixture(autouse=True)
def state_directory(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Keep every artifact of a test in a place of its own, until it is over, and the shell the default one."""
    # Not by `mktemp`, which lists all that was made before; and most tests keep nothing, so the first that does makes it.
    states = tmp_path_factory.getbasetemp() / "states"
    path = states / str(next(_STATES))
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(path))
    monkeypatch.delenv("ANYSHELL_SHELL", raising=False)
    yield path
    # The whole suite keeps 700 MB otherwise, which a later run must remove. What goes on beside a test may still write.
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)


SSH_HOSTS = ["openssh as root", "openssh as a user", "asyncssh"] if sys.platform != "win32" else []
"""Servers that the contract is tested over (`test_backends`, `test_endings`); each is started when it is first needed. They
are of POSIX."""

SSH_HOST = SSH_HOSTS[1:2]
"""The one of them for tests of what runs above a backend, which every host serves in the same way."""


WINDOWS_HOSTS = ["windows cmd"] if sys.platform != "win32" else []
"""Likewise, of Windows, with a login shell. A test that uses one needs `powershell` as well."""


@pytest.fixture(scope="session")
def ssh_host() -> Iterator[Callable[[str], Server]]:
    """Gives a server by its name of `SSH_HOSTS` or `WINDOWS_HOSTS`, which runs until all tests are over."""
    running: dict[str, Server] = {}
    with contextlib.ExitStack() as stack:

        def start(name: str) -> Server:
            if name not in running:
                running[name] = stack.enter_context(_ssh_server(name))
            return running[name]

        yield start


@contextlib.contextmanager
def _ssh_server(name: str) -> Iterator[Server]:
    if name == "asyncssh":
        with embedded() as server:
            yield server
        return
    if name in WINDOWS_HOSTS:
        with embedded(name.removeprefix("windows "), module="tests.windows_server") as server:
            yield server
        return
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    if name == "openssh as root":
        if not is_root():
            pytest.skip("only root can log in as root here; the user of the tests is that of the next one")
        with openssh("root", "UsePAM yes") as server:
            yield server
    else:
        with ordinary_user() as user, openssh(user) as server:
            yield server


@pytest.fixture(scope="module")
def user() -> Iterator[str]:
    """An ordinary user who can log in by a server of OpenSSH's."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with ordinary_user() as name:
        yield name


@pytest.fixture(scope="session")
def powershell(request: pytest.FixtureRequest) -> Iterator[Windows]:
    """PowerShell for Windows, under a Wine of this worker's own, which stays awake until all tests are over."""
    if request.config.getoption("quick"):
        pytest.skip("PowerShell takes too long for --quick")
    if not is_possible():
        pytest.skip("PowerShell runs under Wine here, on Linux on x86-64 alone")
    try:
        found = windows.find()
    except MissingPartError as error:
        missing("PowerShell", str(error))
    with found.copy() as copy, copy.awake(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYSHELL_WINE_COPY", str(copy.prefix.parent))  # for the servers that tests start
        yield copy


class _Remembered(LocalBackend):
    """This machine, of which each shell is asked once whether it answers: one of Windows takes a second for that."""

    _answered: ClassVar[dict[tuple[str, ShellCandidate], ShellInfo]] = {}

    async def _try(self, path: str, candidate: ShellCandidate) -> ShellInfo | str:
        if (known := _Remembered._answered.get((path, candidate))) is not None:
            return known
        answer = await _asked(self, path, candidate)
        if isinstance(answer, ShellInfo):
            _Remembered._answered[path, candidate] = answer
        return answer


_asked = LocalBackend._try
if SYSTEM == "wine":
    # Whichever environment a test makes; Windows itself asks each time.
    LocalBackend._try = _Remembered._try  # type: ignore[method-assign,assignment]


def local() -> Backend:
    """This machine's backend."""
    return _Remembered() if sys.platform == "win32" else connect()


@pytest.fixture(params=["local", *SSH_HOST])
async def env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    """An environment on every real backend, in a directory of its own. A new backend adds a parameter here."""
    async with environment_on(request.param, ssh_host, tmp_path) as environment:
        yield environment


@contextlib.asynccontextmanager
async def environment_on(
    name: str, ssh_host: Callable[[str], Server], tmp_path: Path
) -> AsyncIterator[Environment]:
    """An environment in a directory, here or on one of `SSH_HOSTS`."""
    own = local() if name == "local" else None
    host = own or ssh_host(name).options(max_connections=3)
    open_to_all(tmp_path)
    async with Environment.detect(host, cwd=tmp_path) as environment:
        yield environment
    if own is not None:
        await own.aclose()


def python_for_all() -> str:
    """A Python that every user of the machine can run: the tests' own, or the system's."""
    path = Path(sys.executable)
    for each in (path, path.resolve()):
        if not all(parent.stat().st_mode & 0o001 for parent in each.parents):
            return shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or sys.executable
    return sys.executable


def open_to_all(path: Path) -> None:
    """Let every user of the machine work in a directory of pytest's, which are their owner's alone."""
    if not is_root():
        return  # there is no other user then
    path.chmod(0o777)
    for parent in path.parents:
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o711)


@pytest.fixture
def ordinary_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory of an ordinary user's, who is who runs the test meanwhile: root may do everything."""
    if sys.platform == "win32" or os.geteuid() != 0:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory() as path:
        os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(path)
        finally:
            os.seteuid(0)


@contextlib.contextmanager
def row(name: object) -> Iterator[None]:
    """Name the row of a table, that one environment goes through, in whatever its assertions raise."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"in the row {name!r}: {error}") from error


def missing(part: str, how: str) -> NoReturn:
    """Skip a test for want of a real part; fail it where `REQUIRED` and ``ANYSHELL_REQUIRE`` demand that part."""
    message = f"{part} is not here: {how}"
    required = REQUIRED[SYSTEM]
    if os.environ.get("ANYSHELL_REQUIRE") == "all" and (required is None or part in required):
        pytest.fail(message)
    pytest.skip(message)


def once_more_as_an_ordinary_user(file: str, chosen: str, tmp_path: Path) -> None:
    """Run the chosen tests of a file as a user who owns nothing, in a program of its own.

    Args:
        file: The file.
        chosen: Which of its tests, as pytest's ``-k`` has it.
        tmp_path: Of the test that calls this.
    """
    if sys.platform == "win32" or not is_root():
        pytest.skip("this is an ordinary user")
    bubblewrap()
    open_to_all(tmp_path)
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    os.chown(own, NOBODY, NOBODY)
    top = Path(__file__).parents[1]
    packages = {str(Path(str(module.__file__)).parents[1]) for module in (anyshell, anyio, pytest)}
    places = [top, *map(Path, packages)]
    if not all(each.stat().st_mode & 0o001 for place in places for each in (place, *place.parents)):
        pytest.skip("the packages that the tests need belong to root alone")
    # What is compiled of the modules is read where this run has left it. That user can write none of it.
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    tests = ["-m", "pytest", "-q", file, "-p", "no:cacheprovider", "-p", "no:xdist", "-k", chosen]
    answer = subprocess.run(
        [*user, python_for_all(), *tests],
        cwd=top,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(own),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(own),
            "PYTEST_DEBUG_TEMPROOT": str(own),
            "PYTHONPATH": os.pathsep.join(packages),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout
    assert " passed" in answer.stdout


def bubblewrap() -> str:
    """The program bubblewrap, if it can make a sandbox here."""
    path = shutil.which("bwrap")
    if path is None:
        missing("bubblewrap", "install bubblewrap")
    tried = subprocess.run(
        [path, "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True, check=False
    )
    if tried.returncode:
        missing("bubblewrap", f"it makes no sandbox: {tried.stderr.decode()}")
    return path


def framework(package: str, *, apart: bool = False, python: tuple[int, int] = (3, 11)) -> None:
    """Skip a module for want of a framework of a group ``frameworks``; fail it where ``ANYSHELL_REQUIRE`` demands it.

    Args:
        package: What is imported.
        apart: Whether it has a group of its name and an environment of tox for itself, and is tested there alone.
        python: The first Python that it is for. Below that it is skipped in any case.
    """
    if sys.version_info < python:
        pytest.skip(f"{package} needs Python {python[0]}.{python[1]}", allow_module_level=True)
    if importlib.util.find_spec(package) is not None:
        return
    if apart:
        pytest.skip(f"{package} is not here: run tox -e {package}", allow_module_level=True)
    if os.environ.get("ANYSHELL_REQUIRE") == "all" and REQUIRED[SYSTEM] is None:
        raise ModuleNotFoundError(f"{package} is not here: install the groups frameworks", name=package)
    pytest.skip(f"{package} is not here: install the groups frameworks", allow_module_level=True)
