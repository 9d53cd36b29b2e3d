"""The tool ``job``, for commands that go on after their call, in the background or on a terminal."""
