"""Sessions: persistent shells that keep directory, variables and functions from one command to the next."""

from .session import Session as Session
