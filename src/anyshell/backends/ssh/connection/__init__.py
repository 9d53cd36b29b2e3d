"""The way to a host: its options, its settings, its key, the login, and the connections that are kept."""
