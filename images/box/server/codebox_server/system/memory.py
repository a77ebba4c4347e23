"""The memory limit of this box."""

from __future__ import annotations

import resource

from codebox_server.bounds import FORK_SERVER_MEMORY_BYTES
from codebox_server.system.cgroup import Cgroup


def memory_limit(cgroup: Cgroup) -> int | None:
    """Return the limit in bytes, of the control group or of the data of each process; None when there is none."""
    data = resource.getrlimit(resource.RLIMIT_DATA)[0]
    limits = (cgroup.memory().get("limitBytes"), None if data == resource.RLIM_INFINITY else data)
    return min((limit for limit in limits if limit is not None), default=None)


def has_room(cgroup: Cgroup) -> bool:
    """Whether the current limit leaves room for a fork server."""
    limit = memory_limit(cgroup)
    return limit is None or limit >= FORK_SERVER_MEMORY_BYTES
