"""The benchmarks run. No test asserts a speed."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bench import floors, frameworks
from bench.__main__ import main, measure
from bench.distance import HOST, distant, echo
from bench.framework_consumer import PEERS
from bench.report import Reach, Report, Result, Row
from bench.rounds import Spread, interleave, ratios
from bench.sizes import TINY
from bench.suite import BENCHMARKS

from .conftest import framework, missing
from .ssh_server import SSHD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

posix = pytest.mark.skipif(sys.platform == "win32", reason="the floors are POSIX system calls")


@posix
@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != "frameworks"])
def test_every_benchmark_runs_and_gives_numbers(name: str, request: pytest.FixtureRequest) -> None:
    if name == "powershell":
        request.getfixturevalue("powershell")  # the host exists, and is awake
    if name == "timeout" and shutil.which("setsid") is None:
        missing("setsid", "install util-linux")
    if "ssh" in name and SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    _check(BENCHMARKS[name].measure(TINY, 1))


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere it is one of those above, without a session")
def test_a_session_of_powershell_is_measured_on_windows() -> None:
    result = BENCHMARKS["powershell"].measure(TINY, 1)
    _check(result)
    assert len(result.rows) == 2


def _check(result: Result) -> None:
    assert result.rows
    assert result.notes
    for row in result.rows:
        assert len(row.ours) == 1
        assert all(map(math.isfinite, (*row.ours, *row.floor, *row.ratios)))
        assert len(row.ratios) in (0, 1)


@posix
@pytest.mark.timeout(150)  # two calls of each framework are abandoned after 30 s without a return
@pytest.mark.parametrize("name", ["Deep Agents", "Inspect", "Strands", "harbor", "kimi-cli"])
def test_a_frameworks_own_shell_is_measured_beside_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One framework of those that are installed together, since each takes as long as it sleeps; each other framework in its own environment."""
    peer = PEERS[name]
    framework(
        peer.package,
        apart=peer.environment == peer.package,
        python=(3, 12) if peer.environment == "contract-py312" else (3, 11),
    )
    monkeypatch.setattr(frameworks, "PEERS", {name: PEERS[name]})
    result = BENCHMARKS["frameworks"].measure(TINY, 1)
    _check(result)
    assert (len(result.rows), result.rows[-1].ours) == (3, [0])
    if name == "harbor":  # harbor's own environments are containers
        assert result.rows[0].floor or "its own shell was not measured (" in result.notes[-1]
    else:
        assert all(row.floor for row in result.rows)


@posix
def test_missing_or_failing_framework_is_reported_and_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n[ $1 = -c ] && echo '[\"broken\"]' || { echo 'it is broken' >&2; exit 1; }\n"
    )
    python.chmod(0o700)
    monkeypatch.setenv(frameworks.PYTHONS, str(python))
    peers = {name: PEERS["Strands"]._replace(package=name) for name in ("nowhere", "broken")}
    monkeypatch.setattr(frameworks, "PEERS", peers)
    result = frameworks.measure(TINY, 1)
    assert result.rows == []
    nowhere, broken = result.notes[1:]
    assert nowhere.startswith(
        "nowhere was not measured: nowhere is not here. `tox -e strands --notest` installs it"
    )
    assert broken == "broken was not measured, since it failed (it is broken)."


@posix
def test_missing_or_broken_peers_are_reported_and_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bool] = []

    @contextmanager
    def missing_peer() -> Iterator[Callable[[str], str]]:
        raise ModuleNotFoundError("No module named 'peer'")
        yield str

    @contextmanager
    def wrong() -> Iterator[Callable[[str], str]]:
        yield lambda command: command

    @contextmanager
    def fine() -> Iterator[Callable[[str], str]]:
        yield lambda _: "hi\r\n"
        closed.append(True)

    monkeypatch.setattr("bench.sessions.PEERS", {"missing": missing_peer, "wrong": wrong, "fine": fine})
    result = BENCHMARKS["session-latency"].measure(TINY, 1)
    assert [row.what for row in result.rows if "beside" in row.what] == ["the same, fine (beside)"]
    assert closed
    notes = "\n".join(result.notes)
    assert "missing was not measured, since it is not installed (No module named 'peer')." in notes
    assert "wrong was not measured, since it failed (RuntimeError: the output of `echo hi` is wrong" in notes


@posix
def test_bare_persistent_shell_keeps_state_and_reports_its_end() -> None:
    with floors.persistent("/bin/sh") as run:
        assert run("X=1") == b""
        assert run("printf '%s without a newline' $X") == b"1 without a newline"
        with pytest.raises(RuntimeError, match="ended before its command did"):
            run("exit")


def test_distant_port_delivers_all_data_in_order() -> None:
    sent = bytes(range(256)) * 4096

    async def there_and_back() -> bytes:
        async with echo() as port, distant(port, 0.01) as far:
            reader, writer = await asyncio.open_connection(HOST, far)
            writer.write(sent)
            received = await reader.readexactly(len(sent))
            writer.write_eof()
            received += await reader.read()
            writer.close()
            return received

    assert asyncio.run(there_and_back()) == sent


def test_distant_port_delays_data() -> None:
    async def round_trip() -> float:
        loop = asyncio.get_running_loop()
        async with echo() as port, distant(port, 0.05) as far:
            reader, writer = await asyncio.open_connection(HOST, far)
            began = loop.time()
            writer.write(b"?")
            await reader.readexactly(1)
            writer.close()
            return loop.time() - began

    # A busy machine does not break this bound: data only arrives later.
    assert asyncio.run(round_trip()) > 0.09


@posix
def test_the_program_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    assert main(["--quick", "--only", "startup", "--rounds", "2", "--json", str(file)]) == 0
    assert "`import anyshell`" in capsys.readouterr().out
    startup = json.loads(file.read_text())["benchmarks"]["startup"]
    assert [len(row["ratio"]["rounds"]) for row in startup["rows"] if row["ratio"]] == [2, 2, 2, 2]


def test_failing_benchmark_is_reported_and_the_rest_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> Result:
        raise RuntimeError("no such program")

    def fine(*_: object) -> Result:
        return Result([Row(what="nothing", unit="s", ours=[1.0])])

    monkeypatch.setattr(
        "bench.__main__.BENCHMARKS",
        {
            name: replace(BENCHMARKS["spawn"], measure=measure)
            for name, measure in (("broken", broken), ("fine", fine))
        },
    )
    report = measure(["broken", "fine"], TINY)
    assert list(report.results) == ["fine"]
    assert report.failures == {"broken": "RuntimeError: no such program"}
    assert "FAILED broken: RuntimeError: no such program" in report.table()


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--only", "nothing"]])
def test_bad_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_variants_take_turns_and_the_order_alternates() -> None:
    order: list[str] = []

    def turn(name: str) -> int:
        order.append(name)
        return len(order)

    found = interleave({name: partial(turn, name) for name in "ab"}, 3)
    assert "".join(order) == "abbaab"
    assert found == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_ratios_are_computed_per_round() -> None:
    assert ratios([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]) == [2.0, 3.0, 1.0]
    assert Spread.of([2.0, 3.0, 1.0]) == Spread(2.0, 1.0, 3.0)


@pytest.mark.parametrize(
    ("ours", "by_ratio", "reach", "holds"),
    [
        ([0.9, 1.1, 9.0], True, Reach("<=", 1.1), True),
        ([0.9, 1.2, 1.3], True, Reach("<=", 1.1), False),
        ([0.1, 0.9, 0.9], True, Reach(">=", 0.85), True),
        ([0.1, 0.1, 0.3], False, Reach("<=", 0.2), False),
        ([0.0, 0.0, 0.0], False, Reach("<=", 0.0), True),
        ([1.0], False, None, None),
    ],
)
def test_ratios_are_judged_by_the_median_and_numbers_by_the_worst(
    ours: list[float], by_ratio: bool, reach: Reach | None, holds: bool | None
) -> None:
    row = Row(what="it", unit="s", ours=ours, ratios=ours if by_ratio else (), reach=reach)
    assert row.holds is holds
    assert {True: "yes", False: "no", None: ""}[holds] in Report(TINY, {"it": Result([row])}).table()
