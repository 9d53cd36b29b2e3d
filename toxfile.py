"""A plugin of tox: offer pyenv's interpreters beside the interpreters on PATH, and run no tests twice."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet
    from tox.session.state import State


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Offer every interpreter of pyenv to the environments of tox, and skip the contract on the Python that runs tox."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = sorted(root.glob("versions/3.*/bin/python"))
    state.conf.options.discover = [*(state.conf.options.discover or ()), *map(str, found)]
    # tox-uv asks uv for an interpreter. uv stops at a shim of pyenv for a version that is not active, so the real interpreters
    # come first.
    path = (*dict.fromkeys(str(each.parent) for each in found), os.environ.get("PATH", os.defpath))
    os.environ.setdefault("UV_PYTHON_SEARCH_PATH", os.pathsep.join(path))
    asked = getattr(state.conf.options, "env", None)  # tox commands that run nothing have no `env`
    if asked is not None and asked.is_default_list:
        # The default list has `full`, which runs the contract on the Python that runs tox. The environment for 3.12 stays: it also
        # tests the frameworks that need 3.12.
        own = f"contract-py{sys.version_info[0]}{sys.version_info[1]}$"
        skipped = (state.conf.options.skip_env, own if sys.version_info[:2] != (3, 12) else None)
        state.conf.options.skip_env = "|".join(filter(None, skipped))
