# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from pydantic import AwareDatetime

from codebox_client._model import Model


class Terminal(Model):
    box: str
    clients: int
    """
    How many clients are attached now.
    """
    cols: int
    created_at: AwareDatetime
    cwd: str
    """
    The folder where it was started, relative to /mnt/data; "" is /mnt/data itself, and a folder outside of it is absolute.
    """
    id: str
    pid: int
    """
    The process id of its shell inside the box.
    """
    rows: int


class Ticket(Model):
    expires_at: AwareDatetime
    ticket: str
