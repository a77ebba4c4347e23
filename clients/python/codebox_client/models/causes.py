# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Literal

from codebox_client._model import Model


class Quota(Model):
    """
    For cpu_limit, when the tenant has no CPU time left today: the tenant's quota, in seconds.
    """

    limit: int
    name: str
    used: int


class Cause(Model):
    code: str
    """
    timeout (stage is what it took to stop the run); cpu_limit (the status is timeout; with quota if it was the daily quota of the tenant, over all its boxes); output_limit; interrupted; signal (signal is its name); exit (exitCode is its code); oom (process is the one that ran out of memory); disk_full (usedBytes and limitBytes of the volume); pids_limit (the run filled the box with processes, and what it left running was ended); kernel_start (the kernel did not start or did not respond in time: no code has run); restarted, context_deleted (the context was restarted or deleted); box_… (the box has ended: box_deleted, box_idle, box_lost, box_memory_limit, box_unresponsive, …); not_started (none of the code has run or will run: retry); journal_lost, protocol_error, no_end (the box did not report the end); internal (the kernel or the box server failed, not the code; the status is killed).
    """
    detail: str
    exit_code: int | None = None
    limit_bytes: int | None = None
    """
    The limit of memory for oom, of the volume for disk_full.
    """
    peak_memory_bytes: int | None = None
    """
    The peak memory of the whole box until then.
    """
    process: Literal["kernel", "command", "child"] | None = None
    """
    Which process ran out of memory: the kernel with the variables, the command, or another process.
    """
    quota: Quota | None = None
    """
    For cpu_limit, when the tenant has no CPU time left today: the tenant's quota, in seconds.
    """
    signal: str | None = None
    stage: Literal["interrupt", "restart", "box"] | None = None
    """
    What it took to stop the run: an interrupt, a new kernel, or the end of the box.
    """
    used_bytes: int | None = None
