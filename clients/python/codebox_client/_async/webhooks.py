"""Webhooks of a tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from typing_extensions import Unpack

from .._call import Call, path_of
from ..models import CreatedWebhook, Webhook, WebhookDelivery
from ..options import WebhookChanges, WebhookType, to_json
from .transport import AsyncTransport


class AsyncWebhooks:
    """URLs to which the events of a tenant are posted, such as the end of a run or a box."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, url: str, types: Sequence[WebhookType]) -> CreatedWebhook:
        """Only the result has the ``secret``, which verifies the signatures."""
        call = Call("POST", path_of("webhooks"), json={"url": url, "types": list(types)})
        return await self._transport.json(CreatedWebhook, call)

    async def get(self, webhook: str) -> Webhook:
        """Finds a webhook by its id."""
        return await self._transport.json(Webhook, Call("GET", path_of("webhooks", webhook)))

    async def update(self, webhook: str, **changes: Unpack[WebhookChanges]) -> Webhook:
        """Changes the types of events that a webhook gets, or uses a disabled one again."""
        return await self._transport.json(Webhook, Call("PATCH", path_of("webhooks", webhook), json=to_json(changes)))

    async def rotate(self, webhook: str, *, grace_seconds: int | None = None) -> CreatedWebhook:
        """Gives a webhook a new secret, which only this result contains. The former one signs too for a time."""
        body = to_json({"grace_seconds": grace_seconds})
        call = Call("POST", path_of("webhooks", webhook, "rotate"), json=body)
        return await self._transport.json(CreatedWebhook, call)

    async def delete(self, webhook: str) -> None:
        """Deletes a webhook."""
        await self._transport.done(Call("DELETE", path_of("webhooks", webhook)))

    def deliveries(self, webhook: str) -> AsyncIterator[WebhookDelivery]:
        """The deliveries of a webhook, newest first."""
        return self._transport.items(WebhookDelivery, Call("GET", path_of("webhooks", webhook, "deliveries")))

    async def redeliver(self, webhook: str, delivery: str) -> None:
        """Delivers an event again."""
        path = path_of("webhooks", webhook, "deliveries", delivery, "redeliver")
        await self._transport.done(Call("POST", path))

    def list(self) -> AsyncIterator[Webhook]:
        """The webhooks of the tenant, newest first."""
        return self._transport.items(Webhook, Call("GET", path_of("webhooks")))
