"""One command on many hosts: so many at a time, one outcome each as it comes, and no host that costs another.

Each host has an environment of its own, which is opened for the command and closed behind it. So what is held at any
moment is bounded by how many hosts run in parallel, and not by how many there are. What becomes of one host, whatever it
is, is its own `HostOutcome`; nothing that a host does is raised here.
"""

from .fleet import CONNECT_SECONDS as CONNECT_SECONDS
from .fleet import PARALLELISM as PARALLELISM
from .fleet import Fleet as Fleet
from .hosts import MAX_HOSTS as MAX_HOSTS
from .progress import TAIL as TAIL
from .progress import FleetListener as FleetListener
from .progress import FleetObserver as FleetObserver
from .progress import HostOutcome as HostOutcome
from .progress import HostProgress as HostProgress
from .progress import HostState as HostState
from .run import FleetRun as FleetRun
