"""The way to the host that ``--host`` names."""
