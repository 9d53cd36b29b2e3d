"""Benchmarks of anyshell, each beside a floor measured in the same run: ``python -m bench`` from the repository's top.

The benchmarks are not part of the package, and no test asserts a speed.
"""
