"""``python -m anyshell``: the same program as ``anyshell``."""

from anyshell.cli import main

main(prog_name="anyshell")
