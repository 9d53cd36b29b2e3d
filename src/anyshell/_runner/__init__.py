"""The assembly of a run for the engine: a command's options, its variables, and the layers before its process."""

from .options import RunOptions as RunOptions
from .options import to_command as to_command
from .runner import Runner as Runner
