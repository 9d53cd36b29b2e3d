"""Access rights of files on Windows, as the system itself reports them."""

from __future__ import annotations

import sys

import pytest

if sys.platform != "win32":
    pytest.skip("Windows alone has it", allow_module_level=True)
assert sys.platform == "win32"  # mypy follows the imports below otherwise

import ctypes
import tempfile
from pathlib import Path

from anyshell._private import windows as _acl
from anyshell.backends.local.windows.scripts import ScriptFile
from anyshell.output.artifacts import ArtifactStore

ME = _acl.this_user()
EVERYBODY = "S-1-1-0"


def make(path: Path, entries: str) -> Path:
    path.mkdir()
    with _acl.attributes(f"D:P(A;OICI;FA;;;{ME}){entries}") as made:
        what = _acl._Win32.DACL_SECURITY_INFORMATION
        assert _acl._advapi32().SetFileSecurityW(str(path), what, made.descriptor)
    return path


def test_private_directory_is_accessible_only_to_its_user(tmp_path: Path) -> None:
    above = make(tmp_path / "above", f"(A;OICI;FA;;;{EVERYBODY})")
    _acl.make_directory(str(above / "below"))
    assert _acl.fault_of(str(above / "below")) is None
    with _acl._security(str(above / "below"), _acl._Win32.DACL_SECURITY_INFORMATION) as found:
        masks = [entry.mask for entry in found.entries()]
    assert len(masks) in (2, 3)  # this user, the system, and administrators where they are told apart
    (above / "below" / "file").write_bytes(b"x")
    with pytest.raises(FileExistsError):
        _acl.make_directory(str(above / "below"))
    with pytest.raises(FileNotFoundError):
        _acl.make_directory(str(above / "missing" / "below"))


def test_private_file_is_accessible_only_to_its_user(tmp_path: Path) -> None:
    file = make(tmp_path / "above", f"(A;OICI;FA;;;{EVERYBODY})") / "file"
    with open(_acl.create_file(str(file)), "wb") as opened:
        opened.write(b"a\nb")
        assert file.read_bytes() in (b"", b"a\nb")  # others may read it meanwhile
    assert file.read_bytes() == b"a\nb"
    assert _acl.fault_of(str(file)) is None
    with _acl._security(str(file), _acl._Win32.DACL_SECURITY_INFORMATION) as found:
        masks = [entry.mask for entry in found.entries()]
    assert len(masks) in (2, 3)  # as for a directory
    with pytest.raises(FileExistsError):
        _acl.create_file(str(file))
    assert file.read_bytes() == b"a\nb"
    with pytest.raises(FileNotFoundError):
        _acl.create_file(str(tmp_path / "missing" / "file"))


@pytest.mark.parametrize(
    ("entries", "is_ours"),
    [("", True), (f"(A;OICI;FR;;;{EVERYBODY})", True), (f"(A;OICI;FA;;;{EVERYBODY})", False)],
    ids=["no others", "others read", "others write"],
)
def test_artifact_directory_writable_by_others_is_refused(
    tmp_path: Path, entries: str, is_ours: bool
) -> None:
    store = ArtifactStore(make(tmp_path / "artifacts", entries))
    if is_ours:
        store.create().discard()
        return
    with pytest.raises(PermissionError, match=r"others may write to it.*ANYSHELL_STATE_DIR"):
        store.create()
    with pytest.raises(PermissionError):
        store.list()


def test_script_file_is_private_in_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = make(tmp_path / "above", f"(A;OICI;FA;;;{EVERYBODY})")
    monkeypatch.setattr(tempfile, "tempdir", str(above))
    script = ScriptFile("a secret")
    try:
        assert Path(script.path).parent == above
        with _acl._security(script.path, _acl._Win32.DACL_SECURITY_INFORMATION) as found:
            whose = [
                _acl._sid_text(ctypes.addressof(each) + _acl._AllowingEntry.sid.offset)
                for each in found.entries()
            ]
        assert ME in whose
        assert EVERYBODY not in whose
    finally:
        script.close()
    assert not list(above.iterdir())


def test_artifacts_are_private_in_any_directory(tmp_path: Path) -> None:
    above = make(tmp_path / "state", f"(A;OICI;FA;;;{EVERYBODY})")
    writer = ArtifactStore(above / "made" / "artifacts").create()
    writer.write(b"x")
    path = writer.finish().path
    assert _acl.fault_of(str(path.parent)) is None
    assert _acl.fault_of(str(path.parent.parent)) is None


def test_missing_path_is_an_error(tmp_path: Path) -> None:
    for ask in (_acl.fault_of, lambda path: _acl.copy_permissions(path, path)):
        with pytest.raises(FileNotFoundError) as caught:
            ask(str(tmp_path / "missing"))
        assert caught.value.filename == str(tmp_path / "missing")
