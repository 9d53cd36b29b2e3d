"""The public names exist, and no others do."""

from __future__ import annotations

import ast
import dataclasses
import pickle
import re
import subprocess
import sys
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anyshell

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(anyshell.__file__).parent


@pytest.mark.parametrize("name", anyshell.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(anyshell, name) is not None


def test_type_checkers_see_the_public_names() -> None:
    tree = ast.parse(Path(anyshell.__file__).read_text())
    shown = {
        alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert shown - {None, "annotations"} - anyshell._ROOMS == set(anyshell.__all__) - {"__version__"}


MOST = 40
"""Names at the top level."""


def test_the_top_level_has_few_names() -> None:
    assert len(anyshell.__all__) <= MOST


def moved() -> list[tuple[str, str]]:
    return [(room, name) for room, names in anyshell._MOVED.items() for name in names.split()]


@pytest.mark.parametrize(("room", "name"), moved())
def test_moved_name_is_found_with_a_warning(room: str, name: str) -> None:
    new = getattr(import_module(f"anyshell.{room}"), name)
    with pytest.warns(DeprecationWarning, match=rf"anyshell\.{name} is anyshell\.{room}\.{name} now") as told:
        assert getattr(anyshell, name) is new
    assert told[0].filename == __file__
    assert name not in anyshell.__all__


@pytest.mark.parametrize("room", ["errors", "types"])
def test_public_module_has_its_listed_names(room: str) -> None:
    module = import_module(f"anyshell.{room}")
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert sorted(module.__all__) == sorted(anyshell._MOVED[room].split())
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018 - the access is the test


def test_version_is_that_of_the_distribution() -> None:
    assert anyshell.__version__ == version("anyshell")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        anyshell.no_such_name  # noqa: B018 - the access is the test


def test_former_names_can_be_read() -> None:
    from anyshell import Outcome, abc

    old = [abc.__getattr__(name) for name in ("Exchange", "Outlet", "Inlet", "Section")]
    assert old == [abc.PipeDirectory, abc.OutputPipe, abc.InputPipe, abc.CommandTree]
    assert Outcome(status="timed_out", killed_without_warning=True).ended_at_once
    with pytest.raises(AttributeError, match="no_such_name"):
        abc.__getattr__("no_such_name")


def test_importing_the_package_imports_no_heavy_module() -> None:
    heavy = "{'anyio', 'asyncio', 'pydantic', 'click', 'psutil', 'platformdirs', 'asyncssh'}"
    script = f"import sys, anyshell; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def lazy_packages() -> list[Path]:
    return [path for path in PACKAGE.rglob("__init__.py") if "importer(" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", lazy_packages(), ids=lambda path: path.parent.name)
def test_lazy_package_has_the_names_of_its_type_hints(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (choice,) = (node for node in tree.body if isinstance(node, ast.If) and node.orelse)
    shown = {
        (node.module, alias.name)
        for node in choice.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    (call,) = (node for node in ast.walk(choice) if isinstance(node, ast.Call))
    homes = ast.literal_eval(call.args[1])
    assert {(home, name) for home, names in homes.items() for name in names.split()} == shown
    package = import_module(".".join(("anyshell", *path.relative_to(PACKAGE).parts[:-1])))
    assert all(getattr(package, name) is not None for _, name in shown)
    with pytest.raises(AttributeError, match="no_such_name"):
        package.no_such_name  # noqa: B018 - the access is the test


def test_plain_run_of_the_program_loads_few_modules() -> None:
    script = """
import sys
from anyshell.cli import main
main(["run", "--", "exit 0"], standalone_mode=False)
print(sorted(sys.modules))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(result.stdout))
    others = "anyio._backends asyncssh importlib.resources json pathlib psutil pydantic rich shutil"
    ours = (
        "_environment.snapshot _files _terminals _types.approval _types.effects _types.files _types.output_parts _types.recording "
        "_types.resolved _types.session _types.terminal _types.variables _types.windows_paths backends.local.files "
        "backends.local.posix.pipe_directory backends.local.posix.terminals backends.ssh.connection.options detached jobs "
        "output.artifacts output.screen policy recordings session shells.login shells.session shells.words terminal tool"
    )
    needless = {*others.split(), *(f"anyshell.{name}" for name in ours.split())}
    assert "anyshell._environment.environment" in loaded
    assert loaded & needless == set()


@pytest.mark.skipif(
    sys.platform == "win32", reason="the backend of Windows imports psutil, and 'true' is a program of POSIX"
)
def test_running_a_command_imports_no_pydantic() -> None:
    script = "import sys, anyshell; anyshell.run('true'); print({'pydantic', 'click', 'psutil'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


def test_every_exception_can_be_pickled() -> None:
    lost = anyshell.errors.EnvironmentLost("lost", started=None, environment=3, node="n")
    key = anyshell.HostKeyUntrusted("m", host="h", key_type="t", fingerprint="f", line="l", known_hosts="k")
    failed = anyshell.CommandFailed("m", outcome=anyshell.Outcome(status="timed_out"))
    tried = anyshell.ShellNotFound("m", tried=["bash"])
    far = anyshell.ConnectionFailed("m", stage="session")
    plain = anyshell.InvalidCommand("m")
    plain.add_note("where")
    for error in (lost, key, failed, tried, far, plain):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


DOCUMENTED = re.compile(r"^ +(\w+): Seconds\b", re.MULTILINE)
GIVEN = {"CommandRequest", "HostOutcome", "Outcome", "ShellDetails", "Usage"}
"""Values that a program gets and does not construct."""
OF_A_MODEL = {"JobParams", "ShellParams"}
"""Values from a model: numbers and words."""
OWN = {"Jobs.start", "Jobs.take", "Job.__init__"}
"""Functions that only an environment calls."""


def public_definitions() -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """The syntax trees of public classes and functions, including those of `anyshell.ray`."""
    modules = (anyshell, anyshell.tool, anyshell.types, import_module("anyshell.rendering"))
    names = {name for module in modules for name in module.__all__} | {"Environments", "RunArguments"}
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[0] in ("adapters", "_engine.py"):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in names - GIVEN - OF_A_MODEL:
                yield node.name, node


def test_every_public_parameter_in_seconds_takes_a_timedelta() -> None:
    """The annotation has to accept a timedelta, which mypy enforces in the code; `test_values_convert_durations_to_seconds` tests parameters stored in fields."""
    asked: list[tuple[str, str, str]] = []
    documented: set[str] = set()
    for name, node in public_definitions():
        functions = [
            each for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        functions = [each for each in functions if each.name == "__init__" or not each.name.startswith("_")]
        for each in {node, *functions}:
            documented.update(DOCUMENTED.findall(ast.get_docstring(each, clean=False) or ""))
        taken = [
            (f"{name}.{function.name}", parameter.arg, ast.unparse(parameter.annotation))
            for function in functions
            for parameter in (*function.args.args, *function.args.kwonlyargs)
            if parameter.annotation is not None
        ]
        fields = [each for each in getattr(node, "body", []) if isinstance(each, ast.AnnAssign)]
        settled = {parameter for where, parameter, _ in taken if where.endswith(".__init__")}
        taken += [
            (name, each.target.id, ast.unparse(each.annotation))
            for each in fields
            if isinstance(each.target, ast.Name) and each.target.id not in settled
        ]
        asked += [each for each in taken if each[0] not in OWN]
    numbers = re.compile(r"\b(float|int)\b")
    refusing = [
        (where, name, kind)
        for where, name, kind in asked
        if name in documented - {"clock"} and numbers.search(kind) and "timedelta" not in kind
    ]
    assert refusing == []
    assert len([name for _, name, kind in asked if name in documented and "Seconds" in kind]) > 60


def test_values_convert_durations_to_seconds(tmp_path: Path) -> None:
    given = timedelta(minutes=2)
    ssh = anyshell.SSHOptions(host="h", connect_timeout=given, login_timeout=given, keepalive_interval=given)
    assert (ssh.connect_timeout, ssh.login_timeout, ssh.keepalive_interval) == (120, 120, 120)
    bounds = anyshell.ToolLimits(default_timeout=given, max_timeout=given, min_timeout=given, grace=given)
    assert (bounds.default_timeout, bounds.max_timeout, bounds.min_timeout, bounds.grace) == (120,) * 4
    bounds = anyshell.ToolLimits(approval_timeout=given, update_interval=given, max_wait=given)
    assert (bounds.approval_timeout, bounds.update_interval, bounds.max_wait) == (120, 120, 120)
    assert anyshell.types.Recording("x", idle_time_limit=given).idle_time_limit == 120
    assert anyshell.Limits(cpu=given).cpu == 120
    assert anyshell.ArtifactStore(tmp_path, max_age=given).max_age == 120
    assert anyshell.tool.ShellParams.model_validate({"command": "x", "timeout": given}).timeout == 120
    assert anyshell.ArtifactStore(tmp_path).prune(max_age=given) == []
    for wrong, message in (
        (
            lambda: anyshell.Limits(cpu=timedelta(seconds=0.5)),
            "limits: cpu must be a whole number above 0, not 0.5",
        ),
        (lambda: anyshell.ToolLimits(max_command=given), "max_command must be a finite number"),  # type: ignore[arg-type]  # that is the point
        (
            lambda: anyshell.SSHOptions(host="h", login_timeout=-given),
            "login_timeout must be more than 0 seconds",
        ),
        (lambda: anyshell.ArtifactStore(max_age=-given), "max_age and max_total must be 0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def test_constructors_shown_to_type_checkers_match_the_fields() -> None:
    shown = 0
    for name, node in public_definitions():
        if not isinstance(node, ast.ClassDef):
            continue
        for branch in (each for each in node.body if isinstance(each, ast.If)):
            (function,) = branch.body
            assert isinstance(function, ast.FunctionDef)
            names = [each.arg for each in (*function.args.args[1:], *function.args.kwonlyargs)]
            value = getattr(anyshell.types if name in anyshell.types.__all__ else anyshell, name)
            assert names == [each.name for each in dataclasses.fields(value)], name
            defaults = [
                each for each in (*function.args.defaults, *function.args.kw_defaults) if each is not None
            ]
            own = [
                each.value for each in node.body if isinstance(each, ast.AnnAssign) and each.value is not None
            ]
            own = [each for each in own if not isinstance(each, ast.Call)]  # field(default=None, …)
            texts = [ast.unparse(each) for each in defaults]
            assert [text for text in texts if text != "None"] == [
                text for each in own if (text := ast.unparse(each)) != "None"
            ], name
            shown += 1
    assert shown == 4
