"""Programs, terminals and files of this machine, where it is POSIX."""
