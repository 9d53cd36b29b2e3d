"""Removal of typed secrets from the results for a model."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from .._exceptions import AnyshellError
from .._types import MASK
from ..terminal.secrets import MAX_SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._types import Output

_MASK = MASK.decode()

_WORDS_OF_OTHERS = {"command", "directory", "frame", "name", "program", "prompt", "text", "title"}
"""Facts of a result whose text programs and people choose; anyshell makes the text of all others, such as ids."""

_Facts = TypeVar("_Facts", bound=BaseModel)


class Hidden:
    """The secrets that one tool was given, on whichever terminal each was typed.

    Only a secret in one piece is masked, not a secret that is cut, wrapped, or written in another way.
    """

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self._pattern: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"<{len(self.secrets)} secrets>"

    def add(self, secret: str) -> None:
        """Hide a secret from now on.

        Raises:
            AnyshellError: The tool hides `MAX_SECRETS` secrets already.
        """
        if not secret or secret in self.secrets:
            return
        if len(self.secrets) >= MAX_SECRETS:
            raise AnyshellError(f"{MAX_SECRETS} secrets were typed for this tool, as many as it can hide")
        self.secrets.append(secret)
        # The longest secret comes first, since one secret may begin with another.
        self._pattern = re.compile("|".join(map(re.escape, sorted(self.secrets, key=len, reverse=True))))

    def text(self, text: str) -> str:
        """Mask the secrets in a text."""
        return text if self._pattern is None else self._pattern.sub(_MASK, text)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Mask the secrets in texts, such as sentences of anyshell that name programs and directories."""
        return [self.text(text) for text in texts]

    def facts(self, facts: _Facts) -> _Facts:
        """Mask the secrets in the facts of a result."""
        if self._pattern is None:
            return facts
        return facts.model_copy(update={name: self._fact(name, value) for name, value in facts})

    def _fact(self, name: str, value: object) -> object:
        if isinstance(value, str):
            return self.text(value) if name in _WORDS_OF_OTHERS else value
        if isinstance(value, tuple):
            return tuple(self._fact(name, each) for each in value)
        return self.facts(value) if isinstance(value, BaseModel) else value

    def data(self, data: bytes) -> bytes:
        """Mask the secrets in printed bytes."""
        if self._pattern is None:
            return data
        return self.text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def output(self, output: Output) -> Output:
        """Mask the secrets in the output of a command."""
        if self._pattern is None:
            return output
        alternate = None if output.alternate is None else self.text(output.alternate)
        return replace(output, text=self.text(output.text), alternate=alternate)
