"""Output that is not UTF-8: text of a Windows code page.

A stream is UTF-8 up to the first byte that cannot be UTF-8, and text of the host's code page from that byte to the end. So
UTF-8 is never changed, and shown text stays unchanged. A character that the end of the stream cuts is UTF-8 if the stream
had a character beyond ASCII before; otherwise the bytes are text of the page.

UTF-16 is not recognised: its line feeds and escapes are also halves of other characters, and could not be counted or cut as
in other output. Since NULs are removed, the ASCII part of UTF-16 is readable all the same.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

PAGES = 8
"""Code pages that are cached; a host has one code page."""

_ASCII = bytes(range(0x80))

# No second byte of a two-byte character of a page is in this set: a character begins after a byte of the set.
_ALONE = re.compile(rb"[\0-\x2f]")

# A page has no controls beyond ASCII. Some of Python's tables have C1 controls where the page has no character.
_CONTROLS = dict.fromkeys(range(0x80, 0xA0), "\ufffd")


class Page:
    """A code page: ASCII, and other characters of one or two bytes. An invalid byte becomes U+FFFD.

    Args:
        codec: Python's codec for the page.
    """

    def __init__(self, codec: codecs.CodecInfo) -> None:
        self._codec = codec
        self._wide = any(self._pending(bytes((byte,))) for byte in range(0x80, 0x100))

    @staticmethod
    def of(number: int | None) -> Page | None:
        """Return the page of a number; ``None`` for UTF-8, for a page without ASCII, and for a page that Python does not know."""
        return None if number is None else _page(number)

    def decode(self, data: bytes) -> str:
        """Decode whole output. Raises nothing."""
        return self._codec.decode(data, "replace")[0].translate(_CONTROLS)

    def decoder(self) -> codecs.IncrementalDecoder:
        """Return a decoder for output in pieces, which decodes as `decode` does, but does not replace C1 controls."""
        assert self._codec.incrementaldecoder is not None
        return self._codec.incrementaldecoder("replace")

    def size(self, text: str) -> int:
        """Return the number of bytes that a text was decoded from."""
        return len(self._codec.encode(text.replace("\ufffd", "?"))[0]) if self._wide else len(text)

    def pending(self, data: bytes) -> int:
        """Return the number of last bytes that are the start of an unfinished character."""
        return self._pending(data) if self._wide else 0

    def start(self, data: bytes, end: int) -> int:
        """Return the first place before `end` where a character certainly begins, in output whose start is missing.

        Without a certain place, the result is 0, and the text up to the next ASCII character may be decoded wrongly.
        """
        found = _ALONE.search(data, 0, end) if self._wide else None
        return 0 if found is None else found.start()

    def _pending(self, data: bytes) -> int:
        decoder = self.decoder()
        decoder.decode(data)
        return len(decoder.getstate()[0])


@lru_cache(PAGES)
def _page(number: int) -> Page | None:
    try:
        codec = codecs.lookup(f"cp{number}")
        if codec.name == "utf-8" or codec.decode(_ASCII)[0] != _ASCII.decode():
            return None  # a page without ASCII, such as EBCDIC, which no console has
    except (LookupError, UnicodeError):
        return None
    return Page(codec)


class Recognizer:
    """The search for the first byte that is not UTF-8, in output that comes in pieces. Holds three bytes at most.

    Args:
        utf8_bytes: The place of that byte, if known.

    Attributes:
        ended: Whether the following bytes are text of the page.
    """

    def __init__(self, utf8_bytes: int | None = None) -> None:
        self.ended = utf8_bytes == 0
        self._left = utf8_bytes
        self._held = b""
        self._proven = False  # whether the stream had a character beyond ASCII, in UTF-8

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Split the next bytes into UTF-8, which ends with a whole character, and text of the page."""
        if self.ended:
            return b"", data
        if self._left is not None:
            utf8 = data[: self._left]
            self._left -= len(utf8)
            self.ended = not self._left
            return utf8, data[len(utf8) :]
        if self._held:
            data = self._held + data
            self._held = b""
        if data.isascii():
            return data, b""
        try:
            _, end = codecs.utf_8_decode(data, "strict", False)
        except UnicodeDecodeError as error:
            self.ended = True
            return data[: error.start], data[error.start :]
        if data[end : end + 1] == b"\xed" and data[end + 1 : end + 2] > b"\x9f":
            # The start of a surrogate, which is not UTF-8 (RFC 3629, 3); Python waits for its third byte.
            self.ended = True
            return data[:end], data[end:]
        self._proven = self._proven or not data[:end].isascii()
        self._held = data[end:]
        return data[:end], b""

    def flush(self) -> tuple[bytes, bytes]:
        """Split the held bytes into UTF-8 and text of the page, at the end of the output."""
        held, self._held = self._held, b""
        if not held or self._proven:
            return held, b""
        self.ended = True
        return b"", held


class Recoder:
    """A recoder turns output in pieces into UTF-8, for readers that need not know the encoding.

    Args:
        page: The code page of the host; ``None`` leaves the output unchanged.
    """

    def __init__(self, page: Page | None) -> None:
        self._recognizer = Recognizer()
        self._decoder = None if page is None else page.decoder()

    def feed(self, data: bytes) -> bytes:
        """Return the next bytes as UTF-8, up to an unfinished character."""
        return data if self._decoder is None else self._recode(*self._recognizer.feed(data), final=False)

    def flush(self) -> bytes:
        """Return the text of an unfinished character at the end of the output; usually empty."""
        return b"" if self._decoder is None else self._recode(*self._recognizer.flush(), final=True)

    def _recode(self, utf8: bytes, other: bytes, *, final: bool) -> bytes:
        assert self._decoder is not None
        return utf8 + self._decoder.decode(other, final).translate(_CONTROLS).encode()
