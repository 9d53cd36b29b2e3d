"""The package as a user gets it: built, and installed away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from .systems import SYSTEM

ROOT = Path(__file__).parents[1]
DESCRIPTIONS = sorted(path.name for path in (ROOT / "descriptions").iterdir())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build as `pip install .` does, by way of the source distribution, with the packages that are installed here."""
    target = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)]
    result = subprocess.run(build, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return next(target.glob("*.whl"))


def test_the_wheel_holds_the_package_and_the_descriptions(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "anyshell/py.typed" in names
    assert (
        sorted(Path(name).name for name in names if name.startswith("anyshell/descriptions/")) == DESCRIPTIONS
    )
    assert not [name for name in names if not name.startswith(("anyshell/", "anyshell-"))]


@pytest.mark.skipif(SYSTEM == "wine", reason="venv copies by CopyFile2, which Wine 8 has not")
def test_the_wheel_works_in_a_fresh_environment_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    scripts = home / ("Scripts" if sys.platform == "win32" else "bin")
    python = scripts / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "-q",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, str(wheel)], check=True)
    # The dependencies of anyshell come from here, after the packages of the fresh environment.
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (Path(own) / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = subprocess.run(
        [python, "-c", "import anyshell; print(anyshell.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout
    assert where.startswith(own)
    described = subprocess.run(
        [scripts / "anyshell", "describe"], capture_output=True, text=True, cwd=tmp_path
    )
    assert described.returncode == 0, described.stderr
    assert str(tmp_path) in described.stdout
    assert "${" not in described.stdout


def test_the_checkout_finds_the_descriptions_at_its_top() -> None:
    from anyshell._environment import descriptions

    for name in DESCRIPTIONS:
        assert descriptions.load(name.removesuffix(".md")) == (ROOT / "descriptions" / name).read_text()
