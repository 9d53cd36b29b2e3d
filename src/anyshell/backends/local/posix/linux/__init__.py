"""The processes of this machine, where it is Linux."""
