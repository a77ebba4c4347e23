"""`/codebox/packages`."""

from __future__ import annotations

import asyncio
from typing import Any

from codebox_server.bounds import CPU_LIMIT_MS_MAX, LIST_LIMIT, LIST_LIMIT_MAX, PACKAGE_SPEC, PACKAGES, TIMEOUT_MS_MAX
from codebox_server.errors import BoxError
from codebox_server.http.base import BoxHandler, check_id, number_field, optional_number
from codebox_server.packages.sources import MANAGERS


class PackagesHandler(BoxHandler):
    """The list of installed packages."""

    async def get(self) -> None:
        """Send `{items:[{name, version, source}], nextCursor}` by name; the cursor is the last name of a page."""
        manager = _manager(self.get_query_argument("manager", "pip"))
        after = self.get_query_argument("cursor", "")
        limit = self.get_query_argument("limit", str(LIST_LIMIT))
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= LIST_LIMIT_MAX:
            raise BoxError("invalid_request", f"limit has to be from 1 to {LIST_LIMIT_MAX}", "/limit")
        items = await asyncio.to_thread(self.box.installer.inventory.items, manager)
        rest = [item for item in items if item["name"] > after]
        page = rest[: int(limit)]
        self.send_json({"items": page, "nextCursor": page[-1]["name"] if len(rest) > len(page) else None})


class InstallationHandler(BoxHandler):
    """One installation, which then is a command."""

    async def put(self, command_id: str) -> None:
        """Install `{manager, packages, timeoutMs, cpuLimitMs}`, and stream the events of the command."""
        fields = self.body_fields({"manager", "packages", "timeoutMs", "cpuLimitMs"})
        timeout = None if fields.get("timeoutMs") is None else number_field(fields, "timeoutMs", 1, TIMEOUT_MS_MAX)
        cpu_limit = optional_number(fields, "cpuLimitMs", 1, CPU_LIMIT_MS_MAX)
        command = await self.box.installer.start(
            check_id(command_id), _manager(fields.get("manager", "pip")), _packages(fields), timeout, cpu_limit
        )
        await self.send_events(command.journal, 0)


def _manager(value: Any) -> str:
    if value not in MANAGERS:
        raise BoxError("invalid_request", f"manager has to be one of {', '.join(MANAGERS)}", "/manager")
    return str(value)


def _packages(fields: dict[str, Any]) -> list[str]:
    packages = fields.get("packages")
    if not isinstance(packages, list) or not 1 <= len(packages) <= PACKAGES:
        raise BoxError("invalid_request", f"packages has to be a list of 1 to {PACKAGES}", "/packages")
    for index, package in enumerate(packages):
        pointer = f"/packages/{index}"
        if not isinstance(package, str) or not 1 <= len(package) <= PACKAGE_SPEC or not package.isprintable():
            raise BoxError("invalid_request", f"a package is one line of 1 to {PACKAGE_SPEC} characters", pointer)
        if package.startswith("-") or package != package.strip():
            raise BoxError("invalid_request", "a package must not be an option or have spaces around it", pointer)
    return packages
