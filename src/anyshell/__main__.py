"""``python -m anyshell``: the same program as ``anyshell``. Importing this module runs the program."""

from anyshell.cli.process.inherited import die_of_interrupts

die_of_interrupts()  # before the other imports, which take a moment

from anyshell.cli import main  # noqa: E402 - an interrupt while click is imported must not print a traceback

if __name__ == "__main__":
    main(prog_name="anyshell")
