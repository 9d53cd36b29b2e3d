"""``python -m anyshell``: the same program as ``anyshell``."""

import os
import sys
from contextlib import suppress

from anyshell import __version__
from anyshell.cli.process.inherited import die_of_interrupts

die_of_interrupts()  # before the other imports, which take a moment


def main() -> None:
    """Run the program with the arguments of this process."""
    if sys.argv[1:] == ["--version"]:  # without click, which takes longer than all else
        with suppress(OSError):
            os.write(1, f"anyshell {__version__}\n".encode())
            return
    from anyshell.cli import main

    main(prog_name="anyshell")


if __name__ == "__main__":
    main()
