"""Valid paths of a Windows host, tested on any machine."""

from __future__ import annotations

import pytest

from anyshell import InvalidCommand
from anyshell._types.windows_paths import check_path, fault_of
from anyshell.abc import HostInfo

WINDOWS = HostInfo(
    os="windows",
    arch="x86_64",
    name="Windows",
    version="11",
    hostname="there",
    user="me",
    home="C:\\Users\\me",
    directory="C:\\src",
)

VOLUME = "\\\\?\\Volume{26a21bda-a627-11d7-9931-806e6f6e6963}"


@pytest.mark.parametrize(
    "path",
    [
        "C:\\",
        "c:/src/a b.txt",
        "C:\\src\\.\\..\\.hidden",
        "C:\\a.b.c\\nullable\\console\\com\\com10\\auxiliary.txt",
        "C:\\naïve ☃ 🙂",
        "C:\\src\\%PATH% $x 'y' [z] {w} ^&;",
        "\\\\server\\share\\x",
        "//server/share/x",
        "\\\\wsl$\\Debian\\home",
        "\\\\?\\C:\\src\\nul",
        "\\\\?\\C:\\src\\ends with a dot.",
        "\\\\?\\UNC\\server\\share\\aux.txt",
        VOLUME + "\\x",
        "C:\\" + "a" * 5000,
    ],
)
def test_valid_paths_are_accepted(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("C:\\src\\NUL", "device"),
        ("C:\\src\\nul.txt", "device"),
        ("C:\\CON\\x", "device"),
        ("C:\\com1", "device"),
        ("C:\\LPT².log", "device"),
        ("C:\\aux .c", "device"),
        ("C:\\CONIN$", "device"),
        ("\\\\.\\C:", "device"),
        ("//./pipe/x", "device"),
        ("\\\\.\\PhysicalDrive0", "device"),
        ("//?/C:/x", "device"),
        ("\\\\?\\GLOBALROOT\\Device\\Null", "device"),
        ("\\\\?\\pipe\\x", "device"),
        ("C:\\file:stream", "stream"),
        ("C:\\file::$DATA", "stream"),
        ("C:\\dir:x\\y", "stream"),
        ("C:\\x.", "dots and blanks"),
        ("C:\\x \\y", "dots and blanks"),
        ("C:\\...", "dots and blanks"),
        ("C:\\a*", "no name has"),
        ("C:\\a?b", "no name has"),
        ('C:\\"a"', "no name has"),
        ("C:\\a|b", "no name has"),
        ("C:\\a<b>", "no name has"),
        ("C:\\a\nb", "no name has"),
        ("C:\\half \ud800", "no name has"),
        ("C:x", "relative to whatever directory drive C: is in: write C:\\\\x"),
        ("\\\\?\\C:\\a\\..\\b", "taken as they are"),
        ("\\\\?\\C:\\a/b", "taken as they are"),
    ],
)
def test_paths_with_a_special_meaning_are_refused(path: str, why: str) -> None:
    with pytest.raises(InvalidCommand) as caught:
        check_path(path)
    assert why.replace("\\\\", "\\") in str(caught.value)


def test_refusal_names_the_verbatim_prefix() -> None:
    """For example the file ``nul``, left by a redirection in another system's shell."""
    with pytest.raises(InvalidCommand) as caught:
        check_path("C:\\src\\nul")
    assert "\\\\?\\ before the drive" in str(caught.value)
    with pytest.raises(InvalidCommand) as caught:
        check_path("C:\\src\\a:b")
    assert "\\\\?\\" not in str(caught.value)


def test_a_name_has_no_separators() -> None:
    for name in ("a/b", "a\\b"):
        assert fault_of(name)
    assert fault_of("a b.txt") is None


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        (".", "C:\\src"),
        ("./", "C:\\src"),
        (".\\", "C:\\src"),
        (".\\a", "C:\\src\\a"),
        ("a/b\\c", "C:\\src\\a\\b\\c"),
        ("..\\x", "C:\\src\\..\\x"),
        ("~", "C:\\Users\\me\\"),
        ("~/a", "C:\\Users\\me\\a"),
        ("~\\a", "C:\\Users\\me\\a"),
        ("\\x", "C:\\x"),
        ("/x", "C:\\x"),
        ("D:/x", "D:\\x"),
        ("//server/share/x", "\\\\server\\share\\x"),
        ("\\\\?\\D:\\nul", "\\\\?\\D:\\nul"),
        ("\\\\?\\D:\\x", "D:\\x"),
        (VOLUME + "\\x", VOLUME + "\\x"),
        (VOLUME + "\\", VOLUME + "\\"),
        ("\\\\?\\UNC\\server\\share\\x", "\\\\server\\share\\x"),
        ("\\\\?\\UNC\\server\\share\\x.", "\\\\?\\UNC\\server\\share\\x."),
        ("\\\\?\\D:\\" + "x" * 300, "\\\\?\\D:\\" + "x" * 300),
    ],
)
def test_a_path_is_made_absolute_by_the_rules_of_windows(path: str, resolved: str) -> None:
    assert WINDOWS.resolve(path) == resolved


@pytest.mark.parametrize(
    "path", ["D:x", "C:x", "D:", "nul", "a:b", "\\\\.\\C:", "\\\\?\\pipe\\x", "\\\\?\\x"]
)
def test_drive_relative_and_device_paths_are_not_resolved(path: str) -> None:
    with pytest.raises(InvalidCommand):
        WINDOWS.resolve(path)


def test_paths_are_resolved_against_a_share() -> None:
    share = "\\\\server\\share\\dir"
    assert WINDOWS.resolve("x", share) == "\\\\server\\share\\dir\\x"
    assert WINDOWS.resolve("\\x", share) == "\\\\server\\share\\x"
    with pytest.raises(InvalidCommand, match="relative to where its drive is"):
        WINDOWS.resolve("C:x", share)
