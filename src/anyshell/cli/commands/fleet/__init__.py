"""The command ``fleet``: one command on many hosts."""
