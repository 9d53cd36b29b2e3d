"""Internal addresses in commands: where they stand, and what they may stand for."""

from .root import Root as Root
from .root import contained as contained
from .words import Word as Word
from .words import find as find
