# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from pydantic import AwareDatetime

from codebox_client._model import Model


class Volume(Model):
    created_at: AwareDatetime
    id: str
    name: str
    size_mb: int
    user: str | None
