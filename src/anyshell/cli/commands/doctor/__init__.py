"""The command ``doctor``: checks of the present and missing parts of this machine, or of another host."""
