"""Requests about files that several test modules need."""

import os
from pathlib import Path

import httpx
from box import UID, Box

FILES = "/codebox/files/"


def do(box: Box, **fields: object) -> httpx.Response:
    """Request a file operation."""
    return box.http.post("/codebox/files", json=fields)


def put(box: Box, path: str, content: bytes = b"x") -> str:
    """Upload a file and return its ETag."""
    response = box.http.put(FILES + path, content=content)
    assert response.status_code in (200, 201), response.text
    return response.headers["etag"]


def own(path: Path) -> None:
    """Give a file that a test created as root to the user of the box."""
    if os.getuid() == 0:
        os.chown(path, UID, UID, follow_symlinks=False)
