"""Jobs: the same run, awaited by a scope instead of the caller."""

from .job import READY_SECONDS as READY_SECONDS
from .job import Job as Job
from .job import SentInPart as SentInPart
from .processes import Adopting as Adopting
from .readiness import Ready as Ready
from .registry import MAX_JOBS as MAX_JOBS
from .registry import Jobs as Jobs
from .registry import Observer as Observer
from .work import Work as Work
