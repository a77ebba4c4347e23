# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime
from typing_extensions import TypeAliasType

from codebox_client._model import Model

from . import boxes


class BuildEventStep(Model):
    seq: int
    text: str
    type: Literal["step"]


class BuildEventOutput(Model):
    seq: int
    text: str
    type: Literal["output"]


class BuildEventDone(Model):
    cause: str | None
    seq: int
    state: Literal["ready", "failed", "replaced"]
    type: Literal["done"]


BuildEvent = TypeAliasType("BuildEvent", BuildEventStep | BuildEventOutput | BuildEventDone)


class Gpus(Model):
    """
    The GPUs of each box; null for none.
    """

    count: int
    kind: str
    """
    `nvidia.com/gpu` for whole ones, or the name of a share of one.
    """


class Template(Model):
    gpus: Gpus | None
    """
    The GPUs of each box; null for none.
    """
    idle_seconds: int
    language: str
    """
    The language of code that names none.
    """
    languages: list[str] | None
    """
    What its boxes run, the default first; null until an instance of its current image has been started.
    """
    limits: boxes.Limits
    max_lifetime_seconds: int
    max_limits: boxes.Limits
    name: str
    network: boxes.NetworkPolicy
    version: int | None
    """
    The version that boxes are created from; null for a template of the operator.
    """
    warm: int
    """
    How many instances are kept running, ready to become boxes at once.
    """


class TemplateContent(Model):
    name: str
    version: str


class TemplateDetail(Model):
    """
    `packages` and `programs` are null until an instance of the current image has been started.
    """

    gpus: Gpus | None
    """
    The GPUs of each box; null for none.
    """
    idle_seconds: int
    language: str
    """
    The language of code that names none.
    """
    languages: list[str] | None
    """
    What its boxes run, the default first; null until an instance of its current image has been started.
    """
    limits: boxes.Limits
    max_lifetime_seconds: int
    max_limits: boxes.Limits
    name: str
    network: boxes.NetworkPolicy
    packages: list[TemplateContent] | None
    """
    The Python packages, including dependencies, by name.
    """
    programs: list[TemplateContent] | None
    """
    Programs that code often uses; with the local driver they are those of the host.
    """
    version: int | None
    """
    The version that boxes are created from; null for a template of the operator.
    """
    warm: int
    """
    How many instances are kept running, ready to become boxes at once.
    """


class TemplateVersion(Model):
    cause: str | None
    """
    Why the build failed.
    """
    created_at: AwareDatetime
    finished_at: AwareDatetime | None
    size_bytes: int | None
    """
    The size of its stored files.
    """
    state: Literal["building", "ready", "failed", "replaced"]
    """
    New boxes are created from the version that is `ready`. It is `replaced` once a later one is; boxes that exist stay.
    """
    template: str
    version: int
