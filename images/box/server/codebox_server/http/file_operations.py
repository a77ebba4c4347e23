"""`POST /codebox/files`: operations that do not transfer the bytes of one file."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from codebox_server.bounds import FETCH_HEADERS, FETCH_SECONDS_MAX
from codebox_server.errors import BoxError
from codebox_server.http.base import number_field, optional_text, text_field
from codebox_server.http.work import WorkHandler

_FIELDS: dict[str, set[str]] = {
    "stat": {"path"},
    "mkdir": {"path"},
    "move": {"from", "to", "overwrite"},
    "copy": {"from", "to", "overwrite"},
    "extract": {"path", "to", "format", "overwrite"},
    "fetch": {"url", "path", "headers", "timeoutSeconds", "maxBytes"},
}
# Returns the entry of the result, and the status of the response.
_Operation = Callable[[dict[str, Any]], Coroutine[Any, Any, tuple[dict[str, Any], int]]]
_FORMATS = ("zip", "tar", "tar.gz", "tar.bz2", "tar.xz")


class FileOperationsHandler(WorkHandler):
    """One operation, named by `op`."""

    async def post(self) -> None:
        """Do it and respond with the entry: 201 when something is new, 200 when it was moved or existed before."""
        fields = self.body_fields(set().union({"op"}, *_FIELDS.values()))
        op = text_field(fields, "op")
        if op not in _FIELDS:
            raise BoxError("invalid_request", f"op has to be one of {', '.join(_FIELDS)}", "/op")
        for name in fields:
            if name != "op" and name not in _FIELDS[op]:
                raise BoxError("invalid_request", f"unknown field of {op}", f"/{name}")
        operations: dict[str, _Operation] = {
            "stat": self._stat,
            "mkdir": self._mkdir,
            "move": self._move,
            "copy": self._copy,
            "extract": self._extract,
            "fetch": self._fetch,
        }
        outcome = await self.while_connected(operations[op](fields))
        if outcome is not None:
            self.send_json(*outcome)

    async def _stat(self, fields: dict[str, Any]) -> tuple[dict[str, Any], int]:
        return await self.box.files.operations.look(text_field(fields, "path")), 200

    async def _mkdir(self, fields: dict[str, Any]) -> tuple[dict[str, Any], int]:
        entry, is_new = await self.box.files.operations.make_folder(text_field(fields, "path"))
        return entry, 201 if is_new else 200

    async def _move(self, fields: dict[str, Any]) -> tuple[dict[str, Any], int]:
        source, target = text_field(fields, "from"), text_field(fields, "to")
        return await self.box.files.operations.move(source, target, _flag(fields, "overwrite")), 200

    async def _copy(self, fields: dict[str, Any]) -> tuple[dict[str, Any], int]:
        source, target = text_field(fields, "from"), text_field(fields, "to")
        return await self.box.files.operations.copy(source, target, _flag(fields, "overwrite")), 201

    async def _extract(self, fields: dict[str, Any]) -> tuple[dict[str, Any], int]:
        kind = optional_text(fields, "format")
        if kind is not None and kind not in _FORMATS:
            raise BoxError("invalid_request", f"format has to be one of {', '.join(_FORMATS)}", "/format")
        path, to = text_field(fields, "path"), text_field(fields, "to", "")
        return await self.box.files.operations.extract(path, to, kind, _flag(fields, "overwrite")), 201

    async def _fetch(self, fields: dict[str, Any]) -> tuple[dict[str, Any], int]:
        url, path = text_field(fields, "url"), text_field(fields, "path")
        seconds = number_field({"timeoutSeconds": 60, **fields}, "timeoutSeconds", 1, FETCH_SECONDS_MAX)
        most = number_field(fields, "maxBytes", 1, 1 << 53) if "maxBytes" in fields else None
        headers = _headers(fields)
        return await self.box.files.operations.fetch(url, path, headers, seconds, most), 201


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise BoxError("invalid_request", f"{name} has to be true or false", f"/{name}")
    return value


def _headers(fields: dict[str, Any]) -> dict[str, str]:
    headers = fields.get("headers", {})
    if not isinstance(headers, dict) or len(headers) > FETCH_HEADERS:
        raise BoxError("invalid_request", f"headers has to be an object of at most {FETCH_HEADERS}", "/headers")
    for name, value in headers.items():
        if not isinstance(value, str):
            raise BoxError("invalid_request", "a header has to be a string", f"/headers/{name[:100]}")
    return headers
