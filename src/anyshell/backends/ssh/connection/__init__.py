"""The connection to a host: its options, its settings, its key, the login, and the pool of open connections."""
