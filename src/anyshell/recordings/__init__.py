"""Recordings of a terminal as files: asciicast, which asciinema's player and others play."""

from .asciicast import AsciicastWriter as AsciicastWriter
from .asciicast import Event as Event
from .asciicast import Header as Header
from .asciicast import Theme as Theme
from .asciicast import read as read
