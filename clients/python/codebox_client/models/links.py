# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from codebox_client._model import Model


class CreatedLink(Model):
    box: str
    created_at: AwareDatetime
    download: str | None
    expires_at: AwareDatetime
    id: str
    max_bytes: int | None
    method: Literal["GET", "PUT"]
    once: bool
    path: str
    url: str
    """
    A path at this gateway, which needs no key. It is a secret, and only in this response.
    """
    used_at: AwareDatetime | None
    """
    When a link with `once` was used.
    """


class Link(Model):
    box: str
    created_at: AwareDatetime
    download: str | None
    expires_at: AwareDatetime
    id: str
    max_bytes: int | None
    method: Literal["GET", "PUT"]
    once: bool
    path: str
    used_at: AwareDatetime | None
    """
    When a link with `once` was used.
    """
