"""One command on many hosts: a bounded number of hosts in parallel, one outcome per host, and no host that affects another.

Each host has an environment of its own, which is opened for the command and closed after it. So memory and connections are
bounded by the number of hosts that run in parallel, not by the number of all hosts. Any failure of a host becomes its own
`HostOutcome`, and is never raised by the run.
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
