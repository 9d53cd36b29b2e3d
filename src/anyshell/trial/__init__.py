"""Trials, which show the effects of a command before the effects are real; and checkpoints, which undo effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import importer

if TYPE_CHECKING:
    from .checkpoints import Checkpoint as Checkpoint
    from .checkpoints import Checkpoints as Checkpoints
    from .checkpoints import Restored as Restored
    from .trial import Trial as Trial
else:
    __getattr__ = importer(__name__, {"checkpoints": "Checkpoint Checkpoints Restored", "trial": "Trial"})
