"""The commands ``run`` and ``console``: one command between a person and its host."""
