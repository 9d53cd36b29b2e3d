"""Commands on a POSIX host: their processes, their terminals, and the watcher's shell there."""
