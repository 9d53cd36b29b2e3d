"""Programs, terminals and files of this machine, on POSIX systems."""
