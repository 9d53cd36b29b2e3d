"""The recognition of binary output by its beginning."""

from __future__ import annotations

LOOKED_AT = 1024
"""Bytes of an output's beginning that decide whether the output is text."""

_KINDS = (
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\xca\xfe\xba\xbe", "Mach-O or Java class file"),
    (b"\0asm", "WebAssembly module"),
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"RIFF", "RIFF media file"),
    (b"OggS", "Ogg media file"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"SQLite format 3\0", "SQLite database"),
)
_TEXT_CONTROLS = frozenset(b"\0\a\b\t\n\v\f\r\x0e\x0f\x1b")
_CONTROLS = bytes(byte for byte in range(32) if byte not in _TEXT_CONTROLS)
_FEWEST = 8  # no bound: control characters from which an output may be binary
_SHARE = 20  # no bound: one control character in as many bytes makes an output binary


def kind_of(beginning: bytes) -> str | None:
    """Return the kind of binary output; ``None`` for text.

    Text has few control characters, other than those that move a cursor, begin a sequence or stand between names (NUL). In
    random bytes, every twelfth byte is another control character.
    """
    beginning = beginning[:LOOKED_AT]
    controls = len(beginning) - len(beginning.translate(None, _CONTROLS))
    kind = next((name for magic, name in _KINDS if beginning.startswith(magic)), None)
    if kind is not None and (controls or b"\0" in beginning):
        return kind
    return "no text" if controls >= max(_FEWEST, len(beginning) // _SHARE) else None
