"""The tool ``job``: commands that go on when a call has returned, in the background or on a terminal."""
