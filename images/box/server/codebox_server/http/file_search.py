"""`GET /codebox/files:search`: files by name, lines by content."""

from __future__ import annotations

import os

from codebox_server.bounds import LIST_LIMIT_MAX, SEARCH_KILL_SECONDS
from codebox_server.errors import BoxError
from codebox_server.files.paths import resolve
from codebox_server.http.work import WorkHandler

_PATTERN_LENGTH = 1000


class FileSearchHandler(WorkHandler):
    """One page of results."""

    async def get(self) -> None:
        """Send `{items, nextCursor, complete}`."""
        path = self.get_query_argument("path", "")
        name, content = self._pattern("name"), self._pattern("content")
        if name is None and content is None:
            raise BoxError("invalid_request", "name or content is needed", "/query/name")
        case = self.get_query_argument("caseSensitive", "true")
        if case not in ("true", "false"):
            raise BoxError("invalid_request", "caseSensitive has to be true or false", "/query/caseSensitive")
        root = str(self.box.settings.data)
        try:
            target = resolve(root, path)
        except BoxError as error:
            raise BoxError(error.code, error.detail, "/query/path") from None
        if not os.path.lexists(target):
            raise BoxError("not_found", "no such file or folder", "/query/path")
        fields = {
            "root": root,
            "path": path,
            "name": name,
            "content": content,
            "caseSensitive": case == "true",
            "limit": self.number_argument("limit", 100, LIST_LIMIT_MAX),
            "cursor": self.get_query_argument("cursor", None),
        }
        page = await self.while_connected(self.box.files.workers.run("search", fields, SEARCH_KILL_SECONDS))
        if page is not None:
            self.send_json(page)

    def _pattern(self, name: str) -> str | None:
        value = self.get_query_argument(name, None, strip=False)
        if value is not None and not (0 < len(value) <= _PATTERN_LENGTH and "\0" not in value):
            raise BoxError("invalid_request", f"has to have 1 to {_PATTERN_LENGTH} characters", f"/query/{name}")
        return value
