# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime

from codebox_client._model import Model


class CreatedWebhook(Model):
    created_at: AwareDatetime
    enabled: bool
    failing_since: AwareDatetime | None
    """
    Since when all deliveries have failed. After five days the webhook is disabled.
    """
    former_secret_until: AwareDatetime | None
    """
    Until when the secret before the last rotation signs too; null if it was never rotated.
    """
    id: str
    secret: str
    """
    Verifies the signatures. It is only in this response.
    """
    types: list[str]
    url: str


class Webhook(Model):
    created_at: AwareDatetime
    enabled: bool
    failing_since: AwareDatetime | None
    """
    Since when all deliveries have failed. After five days the webhook is disabled.
    """
    former_secret_until: AwareDatetime | None
    """
    Until when the secret before the last rotation signs too; null if it was never rotated.
    """
    id: str
    types: list[str]
    url: str


class WebhookDelivery(Model):
    attempts: int
    created_at: AwareDatetime
    delivered_at: AwareDatetime | None
    id: str
    """
    The `webhook-id` of all its attempts.
    """
    last_error: str | None
    last_status: int | None
    """
    The HTTP status of the last response.
    """
    next_attempt_at: AwareDatetime | None
    payload: dict[str, Any]
    """
    The body: `type`, `timestamp` and `data`.
    """
    state: Literal["pending", "delivered", "failed"]
    type: str
