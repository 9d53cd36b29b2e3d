"""Commands on a POSIX host: their processes, their terminals, and the shell that looks after them there."""
