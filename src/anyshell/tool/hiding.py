"""What a model is shown, without the secrets that were typed for it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError
from ..terminal.secrets import MASK, MAX_SECRETS

if TYPE_CHECKING:
    from .._types import Output

_MASK = MASK.decode()


class Hidden:
    """The secrets that one tool was given, on whichever terminal they were typed.

    What is taken out is a secret that stands in one piece: not one that is cut, wrapped, or written in another way.
    """

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self._pattern: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"<{len(self.secrets)} secrets>"

    def add(self, secret: str) -> None:
        """Hide one from now on.

        Raises:
            AnyshellError: There are as many as may be.
        """
        if not secret or secret in self.secrets:
            return
        if len(self.secrets) >= MAX_SECRETS:
            raise AnyshellError(f"{MAX_SECRETS} secrets were typed for this tool, as many as it can hide")
        self.secrets.append(secret)
        # The longest first, for one may begin with another.
        self._pattern = re.compile("|".join(map(re.escape, sorted(self.secrets, key=len, reverse=True))))

    def text(self, text: str) -> str:
        """Take them out of a text."""
        return text if self._pattern is None else self._pattern.sub(_MASK, text)

    def data(self, data: bytes) -> bytes:
        """Take them out of what was printed."""
        if self._pattern is None:
            return data
        return self.text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def output(self, output: Output) -> Output:
        """Take them out of what a command printed."""
        if self._pattern is None:
            return output
        alternate = None if output.alternate is None else self.text(output.alternate)
        return replace(output, text=self.text(output.text), alternate=alternate)
