"""The operator's API, for a client whose key is the admin key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from typing_extensions import Unpack

from .._call import Call, creating, path_of
from ..models import ApiKey, AuditEntry, NewApiKey, Tenant, Usage
from ..options import KeyOptions, RotationOptions, TenantChanges, TenantOptions, to_json
from .transport import AsyncTransport


class AsyncTenants:
    """Tenants, with their quotas."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, **options: Unpack[TenantOptions]) -> Tenant:
        """Creates a tenant; quotas that are left out take the default of the deployment."""
        return await self._transport.json(Tenant, creating(path_of("admin", "tenants"), {"name": name}, options))

    async def get(self, tenant: str) -> Tenant:
        """Finds a tenant by its id."""
        return await self._transport.json(Tenant, Call("GET", path_of("admin", "tenants", tenant)))

    async def update(self, tenant: str, **changes: Unpack[TenantChanges]) -> Tenant:
        """Changes a tenant: quotas that are left out stay, and ``state`` suspends or reactivates it."""
        call = Call("PATCH", path_of("admin", "tenants", tenant), json=to_json(changes))
        return await self._transport.json(Tenant, call)

    async def delete(self, tenant: str) -> None:
        """Deletes a tenant for good, with its keys and its boxes."""
        await self._transport.done(Call("DELETE", path_of("admin", "tenants", tenant)))

    def usage(self, tenant: str) -> AsyncIterator[Usage]:
        """Usage of a tenant, by day and user, newest day first."""
        return self._transport.items(Usage, Call("GET", path_of("admin", "tenants", tenant, "usage")))

    def list(self, *, state: Literal["active", "suspended", "deleted"] | None = None) -> AsyncIterator[Tenant]:
        """Newest first; deleted tenants only with ``state``."""
        return self._transport.items(Tenant, Call("GET", path_of("admin", "tenants"), query={"state": state}))


class AsyncKeys:
    """API keys of tenants."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, tenant: str, name: str, **options: Unpack[KeyOptions]) -> NewApiKey:
        """Creates a key, which only this result contains; so the call is not repeated by itself."""
        body = {"tenant": tenant, "name": name, **to_json(options)}
        return await self._transport.json(NewApiKey, Call("POST", path_of("admin", "keys"), json=body))

    async def get(self, key: str) -> ApiKey:
        """Finds a key by its id."""
        return await self._transport.json(ApiKey, Call("GET", path_of("admin", "keys", key)))

    async def rotate(self, key: str, **options: Unpack[RotationOptions]) -> NewApiKey:
        """Creates a key that replaces this one, which stays valid for the overlap, one hour by default."""
        call = Call("POST", path_of("admin", "keys", key, "rotate"), json=to_json(options))
        return await self._transport.json(NewApiKey, call)

    async def revoke(self, key: str) -> None:
        """Revokes a key: no gateway accepts it after one second."""
        await self._transport.done(Call("DELETE", path_of("admin", "keys", key)))

    def list(self, *, tenant: str | None = None) -> AsyncIterator[ApiKey]:
        """The keys of all tenants, or of one."""
        return self._transport.items(ApiKey, Call("GET", path_of("admin", "keys"), query={"tenant": tenant}))


class AsyncAdmin:
    """Tenants, their keys, and the changes of both."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self.tenants = AsyncTenants(transport)
        self.keys = AsyncKeys(transport)

    def audit(self, *, tenant: str | None = None) -> AsyncIterator[AuditEntry]:
        """Who changed which tenant or key, newest first."""
        return self._transport.items(AuditEntry, Call("GET", path_of("admin", "audit"), query={"tenant": tenant}))
