"""The public names are there, and are all that is there."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import anyshell


@pytest.mark.parametrize("name", anyshell.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(anyshell, name) is not None


def test_type_checkers_are_shown_the_same_names() -> None:
    import ast
    from pathlib import Path

    tree = ast.parse(Path(anyshell.__file__).read_text())
    shown = {
        alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert shown - {None, "annotations"} == set(anyshell.__all__) - {"__version__"}


def test_the_version_is_the_distributions() -> None:
    assert anyshell.__version__ == version("anyshell")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        anyshell.no_such_name  # noqa: B018 - the access is the test


def test_names_of_before_still_read() -> None:
    from anyshell import Outcome, abc

    old = [abc.__getattr__(name) for name in ("Exchange", "Outlet", "Inlet", "Section")]
    assert old == [abc.PipeDirectory, abc.OutputPipe, abc.InputPipe, abc.CommandTree]
    assert Outcome(status="timed_out", killed_without_warning=True).ended_at_once
    with pytest.raises(AttributeError, match="no_such_name"):
        abc.__getattr__("no_such_name")


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'anyio', 'asyncio', 'pydantic', 'click', 'psutil', 'platformdirs', 'asyncssh'}"
    script = f"import sys, anyshell; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no local backend on Windows yet")
def test_running_a_command_imports_no_pydantic() -> None:
    script = "import sys, anyshell; anyshell.run('true'); print({'pydantic', 'click', 'psutil'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
