"""Calls about files that several tests make."""

import os
from pathlib import Path

import httpx
from box import UID, Box

FILES = "/codebox/files/"


def do(box: Box, **fields: object) -> httpx.Response:
    """Asks for an operation."""
    return box.http.post("/codebox/files", json=fields)


def refusal(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and pointer."""
    body = answer.json()
    return answer.status_code, body["code"], body.get("pointer")


def put(box: Box, path: str, content: bytes = b"x") -> str:
    """Writes a file; gives its ETag."""
    answer = box.http.put(FILES + path, content=content)
    assert answer.status_code in (200, 201), answer.text
    return answer.headers["etag"]


def own(path: Path) -> None:
    """Files that a test makes as root belong to the box."""
    if os.getuid() == 0:
        os.chown(path, UID, UID, follow_symlinks=False)
