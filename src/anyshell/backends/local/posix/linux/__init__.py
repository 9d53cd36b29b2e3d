"""The processes of this machine, on Linux."""
