"""``python -m anyshell``: the same program as ``anyshell``."""

import gc
import os
import sys
from contextlib import suppress

from anyshell import __version__
from anyshell.cli.process.inherited import die_of_interrupts

die_of_interrupts()  # before the other imports, which take a moment

YOUNG_OBJECTS = 50_000  # no bound: cycles are only found later
"""Objects not freed, at which the garbage collector runs. Imports make hardly a cycle; 700 costs a twentieth of a short
command.
"""


def main() -> None:
    """Run the program with the arguments of this process."""
    if sys.argv[1:] == ["--version"]:  # without click, whose import takes longer than all else
        with suppress(OSError):
            os.write(1, f"anyshell {__version__}\n".encode())
            return
    gc.set_threshold(YOUNG_OBJECTS)
    from anyshell.cli import main

    main(prog_name="anyshell")


if __name__ == "__main__":
    main()
