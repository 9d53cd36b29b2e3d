"""The commands of the program. None imports another: what two of them need stands beside this room."""
