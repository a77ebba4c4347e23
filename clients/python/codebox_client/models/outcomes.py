# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Literal

from typing_extensions import TypeAliasType

from codebox_client._model import Model


class InstalledPackage(Model):
    name: str
    version: str


class LeftProcess(Model):
    age_ms: int | None = None
    command: str
    memory_bytes: int
    pid: int


LeftProcesses = TypeAliasType("LeftProcesses", list[LeftProcess] | None)
"""
Processes that the run started and that still run, including daemons: at most 20, largest first.
"""


class OutputTruncated(Model):
    """
    Output was dropped at this point because the run printed more than is kept.
    """

    dropped_bytes: int
    dropped_events: int
    seq: int
    type: Literal["truncated"]
