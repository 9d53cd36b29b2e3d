"""Windows on a Linux machine: CPython and PowerShell for Windows run under Wine.

``python -m tests.wine set-up`` fetches what that takes and puts it together, in a cache outside the repository;
``python -m tests.wine test`` then runs tests under Python for Windows, as ``tox -e wine`` does.
"""
