"""Internal addresses in commands: finding the addresses, and resolving them to paths."""

from .root import Root as Root
from .root import contained as contained
from .words import Word as Word
from .words import find as find
