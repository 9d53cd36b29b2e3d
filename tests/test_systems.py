"""Modules that are left out on some systems exist, and every collected module can be imported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .systems import COMPUTED, LEFT_OUT_ON_WINDOWS, LONGEST, NOT_QUICK, ONE_WINE, POSIX_TEXTS, UNDER_WINE

HERE = Path(__file__).parent

OF_POSIX = {"curses", "fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
"""Modules of the standard library that are missing on Windows."""


def functions(module: str) -> set[str]:
    tree = ast.parse((HERE / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_modules_left_out_on_windows_exist() -> None:
    for each in (*LEFT_OUT_ON_WINDOWS, *COMPUTED, *NOT_QUICK, *ONE_WINE, *LONGEST):
        module, _, test = each.partition("::")
        assert (HERE / f"{module}.py").exists(), each
        assert not test or test in functions(module), each
    assert COMPUTED.isdisjoint(LEFT_OUT_ON_WINDOWS)


@pytest.mark.parametrize("module", POSIX_TEXTS)
def test_modules_left_out_for_their_texts_exist(module: str) -> None:
    assert {name.partition("[")[0] for name in POSIX_TEXTS[module]} <= functions(module) | functions(
        "conftest"
    )
    assert module not in LEFT_OUT_ON_WINDOWS


@pytest.mark.parametrize("module", UNDER_WINE)
def test_modules_run_under_wine_exist(module: str) -> None:
    assert set(UNDER_WINE[module]) <= functions(module)
    assert module not in LEFT_OUT_ON_WINDOWS
    assert module not in COMPUTED


def test_modules_with_posix_imports_are_left_out_on_windows() -> None:
    importing: dict[str, set[str]] = {}
    for path in HERE.glob("test_*.py"):
        names = importing[path.stem] = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    assert "fcntl" in set().union(*importing.values())
    assert {name for name, names in importing.items() if names & OF_POSIX} <= set(LEFT_OUT_ON_WINDOWS)


def test_each_door_to_a_framework_has_an_environment_of_tox() -> None:
    environments = (HERE.parent / "tox.ini").read_text(encoding="utf-8")
    doors = [path.name for path in HERE.glob("test_adapter_*.py")]
    assert doors
    assert [name for name in doors if f"tests/{name}" not in environments] == []
