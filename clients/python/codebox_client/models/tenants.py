# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from pydantic import AwareDatetime, ConfigDict
from typing_extensions import TypeAliasType

from codebox_client._model import Model


class AuditEntry(Model):
    action: str
    """
    For example `tenant.create` or `key.revoke`.
    """
    actor: str
    """
    `admin`, or `gateway` for what the gateway did by itself.
    """
    at: AwareDatetime
    details: dict[str, Any]
    """
    The values that were set; never a key.
    """
    id: str
    request_id: str | None
    target: str
    """
    The id of the object that was changed.
    """
    tenant: str | None


KeyScope = TypeAliasType("KeyScope", Literal["boxes:read", "boxes:write", "run", "files", "usage"])
"""
`boxes:read`: read boxes, templates, volumes, runs and their outputs. `boxes:write`: create, change and delete boxes and volumes; creating one with packages or files needs `run` or `files` as well. `run`: run code and commands, install packages, connect to terminals and ports, `POST /v1/run`. `files`: read and write files. `usage`: read usage.
"""


class NewApiKey(Model):
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    id: str
    key: str
    """
    The key itself. It is returned only once: the gateway keeps only its hash.
    """
    name: str
    revoked_at: AwareDatetime | None
    scopes: list[KeyScope]
    state: Literal["active", "expired", "revoked"]
    tenant: str


class Quotas(Model):
    model_config = ConfigDict(
        extra="forbid",
    )
    boxes: int | None
    """
    Boxes that have not ended.
    """
    concurrent_executions: int | None
    """
    Executions that run or wait in a queue; commands and installers do not count.
    """
    cpu_seconds_per_day: int | None
    """
    CPU time of all boxes in a day (UTC). Once it is spent, everything that runs in them is ended and nothing new is run.
    """
    requests_per_minute: int | None
    """
    Requests to the API and to ports of boxes, and each operation sent over the WebSocket of executions. Any other WebSocket counts once, when it is opened.
    """
    storage_mb: int | None
    """
    Sum of the disk limits of all boxes that have not ended, and of the sizes of all volumes.
    """
    templates: int | None
    """
    Templates that the tenant has built; 0 forbids it to. Without this quota there may be 100.
    """


class Tenant(Model):
    created_at: AwareDatetime
    id: str
    name: str
    quotas: Quotas
    state: Literal["active", "suspended", "deleted"]


class Usage(Model):
    box_seconds: float
    """
    Time during which boxes existed, including paused boxes but not hibernated ones.
    """
    boxes: int
    """
    Boxes that became ready.
    """
    cpu_ms: float
    """
    CPU time of everything in the boxes, as the host counts it.
    """
    day: date
    executions: int
    """
    Executions that ended, with any status.
    """
    peak_memory_bytes: float
    """
    The peak memory of a single box.
    """
    user: str | None
    """
    Null for boxes without a user.
    """
    wall_ms: float
    """
    Their run time.
    """


class ApiKey(Model):
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    id: str
    name: str
    revoked_at: AwareDatetime | None
    scopes: list[KeyScope]
    state: Literal["active", "expired", "revoked"]
    tenant: str


class Caller(Model):
    key: str
    """
    The id of the key, which is not a secret.
    """
    scopes: list[KeyScope] | None
    """
    What the key may do; null for everything.
    """
    tenant: str
