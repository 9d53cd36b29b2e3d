"""Jobs: runs that an environment awaits in the background, in place of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import importer

if TYPE_CHECKING:
    from .job import Job as Job
    from .job import SentInPart as SentInPart
    from .processes import Adopting as Adopting
    from .readiness import Ready as Ready
    from .registry import Jobs as Jobs
    from .registry import Observer as Observer
    from .work import Work as Work
else:
    __getattr__ = importer(
        __name__,
        {
            "job": "Job SentInPart",
            "processes": "Adopting",
            "readiness": "Ready",
            "registry": "Jobs Observer",
            "work": "Work",
        },
    )
