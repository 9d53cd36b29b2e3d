"""Code that all adapters share: the complete output of a command, and the error for a missing framework."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import anyshell.adapters
from anyshell import AnyshellError, Environment
from anyshell.adapters import needs, whole
from anyshell.adapters.bridge import Bridge

MODULES = sorted(path.stem for path in Path(anyshell.adapters.__file__).parent.glob("[a-z]*.py"))
DOORS = ["acp", "ray", *(f"adapters.{name}" for name in MODULES if name not in ("bridge", "whole"))]


@pytest.mark.parametrize("name", DOORS)
def test_missing_framework_names_its_extra(name: str) -> None:
    """The import loads no other adapter, and the named extra exists."""
    hide = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in known and not name.startswith("_"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
known = {{*sys.stdlib_module_names, "anyshell"}}
import anyshell.adapters.whole, anyshell.tool.shell, anyio
known |= {{name.partition(".")[0] for name in sys.modules}}
sys.meta_path.insert(0, Hidden())
import anyshell.{name}
"""
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False)
    extra = name.rpartition(".")[2].replace("_", "-")
    alone = "pip install --no-deps pykaos && " if extra == "kaos" else ""
    assert done.stderr.rstrip().endswith(f"which is not installed: {alone}pip install 'anyshell[{extra}]'")
    extras = (Path(__file__).parents[1] / "pyproject.toml").read_text().partition("[project.optional-dep")[2]
    assert f"\n{extra} = [" in extras.partition("\n[project.")[0]


def test_missing_dependency_of_a_framework_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), needs("framework", "extra"):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401 - the test needs a missing module


@pytest.mark.anyio
async def test_arguments_are_literal_and_stderr_is_separate(env: Environment) -> None:
    words = ["sh", "-c", 'printf %s "$1"; printf err >&2; exit 3', "sh", " $() `x`; *'\" "]
    made = await whole.run_whole(env, words, stdin=b"")
    assert (made.exit_code, made.stdout, made.stderr) == (3, words[-1].encode(), b"err")


@pytest.mark.anyio
async def test_output_bytes_are_unchanged(env: Environment) -> None:
    made = await whole.run_whole(env, r"printf '\033[1mbold\r\n\000\377'", split_stderr=False)
    assert made.stdout == b"\x1b[1mbold\r\n\x00\xff"
    assert not made.too_much
    assert made.kept == ""


@pytest.mark.anyio
async def test_process_that_cannot_be_stopped_is_named() -> None:
    from anyshell import Outcome
    from anyshell.abc import ProcessInfo

    left = (
        ProcessInfo(pid=7, name="de\x1baf", started=1.0, alive=True),
        ProcessInfo(pid=8, name="gone", started=1.0, alive=False),
    )
    made = whole.Whole(Outcome(status="timed_out", left_behind=left), None, b"", b"", 7, too_much=False)
    assert made.alive == r"; still alive: de\x1baf (7)"
    assert made.stopped(2) == r"stopped after 2 s; still alive: de\x1baf (7)"


@pytest.mark.anyio
@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited"
)  # the loop is closed before the call is over
async def test_blocking_call_returns_when_its_loop_is_closed() -> None:
    begun = threading.Event()

    async def make() -> Bridge:
        return Bridge()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    other = threading.Thread(target=loop.run_forever)
    other.start()
    bridge = asyncio.run_coroutine_threadsafe(make(), loop).result()
    waiting = asyncio.ensure_future(asyncio.to_thread(bridge.wait, wait()))
    await asyncio.to_thread(begun.wait)
    left = asyncio.all_tasks(loop)
    loop.call_soon_threadsafe(loop.stop)
    await asyncio.to_thread(other.join)
    loop.close()
    with pytest.raises(AnyshellError, match="closed during the call"):
        await waiting
    with pytest.raises(AnyshellError, match="is closed"):
        await asyncio.to_thread(bridge.wait, wait())
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # typeshed has no private names


@pytest.mark.anyio
async def test_cancelled_call_from_another_loop_ends_before_the_exception() -> None:
    loop, bridge = asyncio.get_running_loop(), Bridge()
    said: list[str] = []
    begun = threading.Event()

    async def work() -> str:
        assert asyncio.get_running_loop() is loop
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            said.append("cleaned up")
        return "never"

    async def one() -> int:
        return 1

    async def call() -> int:
        running = asyncio.ensure_future(bridge.run(work()))
        await asyncio.to_thread(begun.wait)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        said.append("raised")
        with pytest.raises(ZeroDivisionError):
            await bridge.run(fail())
        return await bridge.run(one())

    async def fail() -> None:
        raise ZeroDivisionError

    assert await asyncio.to_thread(lambda: asyncio.run(call())) == 1
    assert said == ["cleaned up", "raised"]


@pytest.mark.anyio
async def test_call_not_started_by_a_blocked_loop_never_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.adapters.bridge.BEGIN_SECONDS", 0.1)
    bridge = Bridge()
    ran = False

    async def work() -> None:
        nonlocal ran
        ran = True

    def call() -> None:
        with pytest.raises(AnyshellError, match="is blocked"):
            bridge.wait(work())
        with pytest.raises(AnyshellError, match="is blocked"):
            asyncio.run(bridge.run(work()))

    other = threading.Thread(target=call)
    other.start()
    other.join()  # in the event loop's own thread
    await asyncio.sleep(0)
    assert not ran
