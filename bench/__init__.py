"""How fast anyshell is beside a floor, measured in the same run: ``python -m bench`` from the repository's top.

Nothing here is part of the package, and no test asserts a speed.
"""
