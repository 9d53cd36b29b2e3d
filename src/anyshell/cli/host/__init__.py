"""The connection to the host that ``--host`` names."""
