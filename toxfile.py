"""Let tox find the interpreters that pyenv installed; on PATH it finds them by itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet
    from tox.session.state import State


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Offer every interpreter of pyenv to whatever environment asks for its version."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = sorted(root.glob("versions/3.*/bin/python"))
    state.conf.options.discover = [*(state.conf.options.discover or ()), *map(str, found)]
