"""Output that is not UTF-8: text of a code page of Windows.

A stream is UTF-8 up to the first byte that cannot be, and from there on, to its end, text of the host's code page. So
UTF-8 is never changed, and what has been shown stays as it is. A character that the end of the stream cuts is UTF-8 if
there was one before that is more than ASCII, and text of the page otherwise.

UTF-16 is not recognised: its line feeds and escapes are halves of other characters too, so that neither could be
counted or cut as everywhere else. Since NULs are removed, what of it is ASCII is read all the same.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

PAGES = 8
"""Code pages that are remembered; a host has one."""

_ASCII = bytes(range(0x80))

# The second byte of a two-byte character of a page is none of these: after one of them, a character begins.
_ALONE = re.compile(rb"[\0-\x2f]")

# A page has no controls but those of ASCII. Some of Python's tables have these where there is no character.
_CONTROLS = dict.fromkeys(range(0x80, 0xA0), "\ufffd")


class Page:
    """A code page: ASCII, and other characters of one or two bytes. An invalid byte becomes U+FFFD.

    Args:
        codec: Python's.
    """

    def __init__(self, codec: codecs.CodecInfo) -> None:
        self._codec = codec
        self._wide = any(self._pending(bytes((byte,))) for byte in range(0x80, 0x100))

    @staticmethod
    def of(number: int | None) -> Page | None:
        """The page of a number; ``None`` where that is UTF-8, or none that output can be in and that Python knows."""
        return None if number is None else _page(number)

    def decode(self, data: bytes) -> str:
        """The text of whole output. Nothing is raised."""
        return self._codec.decode(data, "replace")[0].translate(_CONTROLS)

    def decoder(self) -> codecs.IncrementalDecoder:
        """Decodes output that comes in pieces, as `decode` would, but for controls."""
        assert self._codec.incrementaldecoder is not None
        return self._codec.incrementaldecoder("replace")

    def size(self, text: str) -> int:
        """Bytes that a decoded text was."""
        return len(self._codec.encode(text.replace("\ufffd", "?"))[0]) if self._wide else len(text)

    def pending(self, data: bytes) -> int:
        """The number of last bytes that are the start of a character."""
        return self._pending(data) if self._wide else 0

    def start(self, data: bytes, end: int) -> int:
        """The first place, before `end`, where a character surely begins, of output whose start is missing.

        Without such a place it is 0, and what follows up to the next ASCII may be read wrongly.
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
            return None  # a page of EBCDIC, say, which no console has
    except (LookupError, UnicodeError):
        return None
    return Page(codec)


class Recognizer:
    """Finds, in output that comes in pieces, the first byte that is not UTF-8. Holds three bytes at most.

    Args:
        utf8_bytes: Where it is, if that is known.

    Attributes:
        ended: Whether what comes is text of the page.
    """

    def __init__(self, utf8_bytes: int | None = None) -> None:
        self.ended = utf8_bytes == 0
        self._left = utf8_bytes
        self._held = b""
        self._proven = False  # whether there was a character that is more than ASCII

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Part what comes into UTF-8, which ends with a whole character, and text of the page."""
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
            # The start of a surrogate, which is no UTF-8 (RFC 3629, 3); Python waits for its third byte.
            self.ended = True
            return data[:end], data[end:]
        self._proven = self._proven or not data[:end].isascii()
        self._held = data[end:]
        return data[:end], b""

    def flush(self) -> tuple[bytes, bytes]:
        """Say of the last bytes what they are, now that nothing more comes."""
        held, self._held = self._held, b""
        if not held or self._proven:
            return held, b""
        self.ended = True
        return b"", held


class Recoder:
    """Makes UTF-8 of output that comes in pieces, for readers that need not know in which encoding it was.

    Args:
        page: The host's; ``None`` changes nothing.
    """

    def __init__(self, page: Page | None) -> None:
        self._recognizer = Recognizer()
        self._decoder = None if page is None else page.decoder()

    def feed(self, data: bytes) -> bytes:
        """The next bytes as UTF-8, up to a character that they do not finish."""
        return data if self._decoder is None else self._recode(*self._recognizer.feed(data), final=False)

    def flush(self) -> bytes:
        """The text of an unfinished character, now that the output has ended; usually empty."""
        return b"" if self._decoder is None else self._recode(*self._recognizer.flush(), final=True)

    def _recode(self, utf8: bytes, other: bytes, *, final: bool) -> bytes:
        assert self._decoder is not None
        return utf8 + self._decoder.decode(other, final).translate(_CONTROLS).encode()
