"""The command ``doctor``: the parts that are here or on a host, and the missing ones."""
