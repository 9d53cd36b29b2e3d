"""The commands ``run`` and ``console``, which run one command on one host."""
