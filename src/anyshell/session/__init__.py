"""Sessions: persistent shells, of which directory, variables and functions last from command to command."""

from .session import Session as Session
