"""Gives a forked process what must not be equal in two processes."""

from __future__ import annotations

import logging
import os
import random
import sys
import tempfile
import time


def renew(with_numpy: bool = False) -> None:
    """Reseed the generators, and forget names and times that were determined before the fork.

    Other generators take their seed from the system when they are created, or notice a fork by themselves. That of
    numpy is reseeded on request, as that copies hundreds of pages of shared memory.
    """
    random.seed()
    if with_numpy and "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    ssl = sys.modules.get("ssl")
    if ssl is not None:
        ssl.RAND_add(os.urandom(32), 32.0)
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        uuid._node = uuid._last_timestamp = None  # type: ignore[attr-defined]
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None:
        processes.current_process().authkey = os.urandom(32)
    tempfile._name_sequence = tempfile.tempdir = None  # type: ignore[attr-defined]
    logging._startTime = time.time()  # type: ignore[attr-defined]
    time.tzset()
