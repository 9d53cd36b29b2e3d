"""Fixtures and hooks for all tests."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib.util
import itertools
import os
import re
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
    # Tests run by nohup, or in the background of a script, inherit ignored signals, and would pass these on to all
    # started programs.
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)

if SYSTEM == "wine":
    # Linux runs the same files, perhaps at the same time: compiled files contain the file names of their system.
    sys.pycache_prefix = tempfile.mkdtemp(prefix="compiled-")

    from hypothesis.internal import scrutineer

    # Packages are beside Python here: hypothesis would scan all of them for constants, like the project.
    scrutineer.SITE_PACKAGES_DIRS.add(Path(pytest.__file__).resolve().parents[1])

if sys.platform != "win32":
    # Programs of the tests draw for the terminal of the test, independently of the terminal of the run: tox does not pass
    # TERM on, and a machine without a user has no TERM.
    os.environ["TERM"] = "xterm-256color"
    for _name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        os.environ.pop(_name, None)

settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")  # no test asserts a time, and these machines are busy
settings.register_profile("few", settings.get_profile("ci"), max_examples=20)
"""The profile for Wine, without a deadline: there every example takes longer, and random examples find no additional faults."""

REMOTE_BY_SSH = ("sftp", "sftp-asyncssh", "no-sftp")
"""Implementations of a host's files (`file_hosts`) that use an SSH server."""

HANG_SECONDS = 120
"""Seconds beyond the timeout of a test until a test that hangs, for example in its cleanup, ends the process of its worker.
pytest-xdist then reports the test as failed."""

LONGEST_IN_A_NAME = 200
"""Characters or bytes of a parameter in a test's name, at most."""

OWN_DIRECTORY = pytest.StashKey[str]()
"""The temporary directory of a run as root."""

NOBODY = 65534
"""A user id without files or processes."""


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which private directories are created."""
    path = tmp_path / "private"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


class _LeftOut(pytest.Module):
    """A module that is not imported, since it may need modules that this system lacks."""

    def collect(self) -> NoReturn:
        reason = LEFT_OUT_ON_WINDOWS.get(self.path.stem, "it computes, and Linux and Windows do the same")
        pytest.skip(f"{self.name}: {reason}", allow_module_level=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a run of minutes instead of a quarter of an hour."""
    parser.addoption("--quick", action="store_true", help="only what needs no SSH, no Wine and no programs")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give a run as root a directory of its own, for `open_to_all`.

    Otherwise all runs of a user share ``pytest-of-root``, and each new run closes that directory to other users
    (`pytest.TempPathFactory.getbasetemp`).
    """
    if is_root() and not config.option.basetemp and "PYTEST_DEBUG_TEMPROOT" not in os.environ:
        config.option.basetemp = config.stash[OWN_DIRECTORY] = tempfile.mkdtemp(prefix="pytest-")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove the directory of a passed run; the files of a failed test stay for inspection."""
    own = session.config.stash.get(OWN_DIRECTORY, None)
    if own is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(own, ignore_errors=True)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long values by their length: a test's name becomes a variable, whose length is limited."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_IN_A_NAME:
        return f"{argname} of {len(val)}"
    return None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Leave out modules that are not for this system."""
    left_out = sys.platform == "win32" and module_path.stem in LEFT_OUT_ON_WINDOWS
    if left_out or (SYSTEM == "wine" and module_path.stem in COMPUTED):
        return _LeftOut.from_parent(parent, path=module_path)
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Give the modules of `ONE_WINE` to one worker, and each other module to one worker, like ``--dist loadfile``."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-not-found,import-untyped,unused-ignore]  # only where it is installed

    class OneWine(LoadFileScheduling):  # type: ignore[misc,unused-ignore]  # only where it is installed
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "one Wine" if Path(file).stem in ONE_WINE else file

    config.option.loadscopereorder = False  # `_longest_first` has ordered the modules
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
    """Put long modules first, and then modules by their number of tests; tests of a module stay in order."""
    ranks = {name: rank for rank, name in enumerate(LONGEST, 1)} | dict.fromkeys(ONE_WINE, 0)
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (ranks.get(item.path.stem, len(ranks)), -counts[item.path], item.path))


def _asks_windows(item: pytest.Item) -> bool:
    asking = UNDER_WINE.get(item.path.stem)
    return asking is None or (isinstance(item, pytest.Function) and item.originalname in asking)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that are not quick, and tests whose commands are for another shell than the default shell here."""
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
    """Exempt imported modules and collected tests from later garbage collections: these million objects stay."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the process if a test hangs, with the stacks of its threads: a timeout raises in a test only once."""
    _guard(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Renew the guard after a failure, because pytest's own plugin cancels the timer then."""
    if isinstance(node, pytest.Item):
        _guard(node)


def _guard(item: pytest.Item) -> None:
    # The stream of pytest's own plugin: the stderr of a test is captured, and lost with the process.
    stderr = item.config.stash[fault_handler_stderr_fd_key]
    marker = item.get_closest_marker("timeout")
    timeout = marker.args[0] if marker is not None else float(item.config.getini("timeout"))
    faulthandler.dump_traceback_later(timeout + HANG_SECONDS, exit=True, file=stderr)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many modules were left out; the list of skipped tests above names each with its reason."""
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
"""Names of the tests' directories for kept files."""


@pytest.fixture(autouse=True)
def state_directory(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Give each test its own state directory, removed at its end, and the default shell."""
    # Not by `mktemp`, which lists all earlier directories; and most tests keep no file, so the first kept file creates the directory.
    states = tmp_path_factory.getbasetemp() / "states"
    path = states / str(next(_STATES))
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(path))
    monkeypatch.delenv("ANYSHELL_SHELL", raising=False)
    yield path
    # Otherwise the whole suite keeps 700 MB, which a later run must remove. A process that outlives a test may still write.
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)


SSH_HOSTS = ["openssh as root", "openssh as a user", "asyncssh"] if sys.platform != "win32" else []
"""Servers for the tests of the contract (`test_backends`, `test_endings`); each is started at its first use. All are POSIX
hosts."""

SSH_HOST = SSH_HOSTS[1:2]
"""The server for tests of code above the backends, which every host serves in the same way."""


WINDOWS_HOSTS = ["windows cmd"] if sys.platform != "win32" else []
"""Likewise for Windows hosts, with a login shell. A test of these also needs `powershell`."""


@pytest.fixture(scope="session")
def ssh_host() -> Iterator[Callable[[str], Server]]:
    """Gives a server by its name in `SSH_HOSTS` or `WINDOWS_HOSTS`. The server runs until the end of all tests."""
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
    """An ordinary user who can log in over OpenSSH's server."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with ordinary_user() as name:
        yield name


@pytest.fixture(scope="session")
def powershell(request: pytest.FixtureRequest) -> Iterator[Windows]:
    """PowerShell for Windows, under this worker's own Wine, which stays awake until the end of all tests."""
    if request.config.getoption("quick"):
        pytest.skip("PowerShell takes too long for --quick")
    if not is_possible():
        pytest.skip("PowerShell runs under Wine here, on Linux on x86-64 alone")
    try:
        found = windows.find()
    except MissingPartError as error:
        missing("PowerShell", str(error))
    with found.copy() as copy, copy.awake(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYSHELL_WINE_COPY", str(copy.prefix.parent))  # for servers that tests start
        yield copy


class _Remembered(LocalBackend):
    """This machine, with each shell probed once: a shell of Windows takes a second for a probe."""

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
    # For every environment of a test; on Windows itself each environment probes again.
    LocalBackend._try = _Remembered._try  # type: ignore[method-assign,assignment]  # replaced for all tests


def local() -> Backend:
    """This machine's backend."""
    return _Remembered() if sys.platform == "win32" else connect()


@pytest.fixture(params=["local", *SSH_HOST])
async def env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    """An environment on every real backend, in a temporary directory. A new backend adds a parameter here."""
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
    """Let every user of the machine work in a directory of pytest, which otherwise only its owner can enter."""
    if not is_root():
        return  # then there is no other user
    path.chmod(0o777)
    for parent in path.parents:
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o711)


@pytest.fixture
def ordinary_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory of an ordinary user, as whom the test runs meanwhile: root has every permission."""
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
    """Add the row of a table to the exceptions of its assertions; one environment runs all rows."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"in the row {name!r}: {error}") from error


def missing(part: str, how: str) -> NoReturn:
    """Skip a test that lacks a real part; fail the test if `REQUIRED` and ``ANYSHELL_REQUIRE`` demand that part."""
    message = f"{part} is not here: {how}"
    required = REQUIRED[SYSTEM]
    if os.environ.get("ANYSHELL_REQUIRE") == "all" and (required is None or part in required):
        pytest.fail(message)
    pytest.skip(message)


def once_more_as_an_ordinary_user(file: str, chosen: str, tmp_path: Path) -> None:
    """Run the chosen tests of a file as a user without files, in a separate program.

    Args:
        file: The file.
        chosen: Which of its tests, as pytest's ``-k`` has it.
        tmp_path: Of the test that calls this.
    """
    if sys.platform == "win32" or not is_root():
        pytest.skip("this is an ordinary user")
    # After a rename, a word that matches no test would leave tests out, or let them in, in silence.
    names = " ".join(re.findall(r"def (test_\w+)", Path(file).read_text(encoding="utf-8")))
    assert not [
        word for word in re.findall(r"\w+", chosen) if word not in names and word not in ("and", "not", "or")
    ]
    bubblewrap()
    open_to_all(tmp_path)
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    os.chown(own, NOBODY, NOBODY)
    top = Path(__file__).parents[1]
    packages = {str(Path(str(module.__file__)).parents[1]) for module in (anyshell, anyio, pytest)}
    places = [top, *map(Path, packages)]
    if not all(each.stat().st_mode & 0o001 for place in places for each in (place, *place.parents)):
        missing("packages that every user can read", "chmod a+x the directories above them")
    # That user reads the compiled modules of this run, and cannot write them.
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
    """The program bubblewrap, if it can create a sandbox here."""
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
    """Skip a module that lacks a framework of a group ``frameworks``; fail the module if ``ANYSHELL_REQUIRE`` demands the framework.

    Args:
        package: The package to import.
        apart: Whether the framework has a group of its name and a separate environment of tox, and is tested only there.
        python: The first supported Python. On an older Python the module is always skipped.
    """
    if sys.version_info < python:
        pytest.skip(f"{package} needs Python {python[0]}.{python[1]}", allow_module_level=True)
    if importlib.util.find_spec(package) is not None:
        return
    if apart and os.environ.get("TOX_ENV_NAME") != package:
        pytest.skip(f"{package} is not here: run tox -e {package}", allow_module_level=True)
    if os.environ.get("ANYSHELL_REQUIRE") == "all" and REQUIRED[SYSTEM] is None:
        raise ModuleNotFoundError(f"{package} is not here: install the groups frameworks", name=package)
    pytest.skip(f"{package} is not here: install the groups frameworks", allow_module_level=True)
