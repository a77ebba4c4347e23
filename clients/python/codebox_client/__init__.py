"""The client of CodeBox: ``CodeBox`` for ordinary code, ``AsyncCodeBox`` for asyncio."""

from . import models
from ._async.admin import AsyncAdmin, AsyncKeys, AsyncTenants
from ._async.box import AsyncBox, AsyncContexts
from ._async.codebox import AsyncBoxes, AsyncCodeBox
from ._async.exports import AsyncExports
from ._async.files import AsyncFiles
from ._async.links import AsyncLinks
from ._async.runs import AsyncCommands, AsyncExecutions, AsyncNotebooks, AsyncPackages, AsyncRunningCode
from ._async.streams import AsyncEventStream
from ._async.templates import AsyncTemplates
from ._async.terminals import AsyncTerminalConnection, AsyncTerminals
from ._async.volumes import AsyncVolumes
from ._async.webhooks import AsyncWebhooks
from ._sync.admin import Admin, Keys, Tenants
from ._sync.box import Box, Contexts
from ._sync.codebox import Boxes, CodeBox
from ._sync.exports import Exports
from ._sync.files import Files
from ._sync.links import Links
from ._sync.runs import Commands, Executions, Notebooks, Packages, RunningCode
from ._sync.streams import EventStream
from ._sync.templates import Templates
from ._sync.terminals import TerminalConnection, Terminals
from ._sync.volumes import Volumes
from ._sync.webhooks import Webhooks
from .errors import CodeBoxError, InputFault, QuotaMet

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncBox",
    "AsyncBoxes",
    "AsyncCodeBox",
    "AsyncCommands",
    "AsyncContexts",
    "AsyncEventStream",
    "AsyncExecutions",
    "AsyncExports",
    "AsyncFiles",
    "AsyncKeys",
    "AsyncLinks",
    "AsyncNotebooks",
    "AsyncPackages",
    "AsyncRunningCode",
    "AsyncTemplates",
    "AsyncTenants",
    "AsyncTerminalConnection",
    "AsyncTerminals",
    "AsyncVolumes",
    "AsyncWebhooks",
    "Box",
    "Boxes",
    "CodeBox",
    "CodeBoxError",
    "Commands",
    "Contexts",
    "EventStream",
    "Executions",
    "Exports",
    "Files",
    "InputFault",
    "Keys",
    "Links",
    "Notebooks",
    "Packages",
    "QuotaMet",
    "RunningCode",
    "Templates",
    "Tenants",
    "TerminalConnection",
    "Terminals",
    "Volumes",
    "Webhooks",
    "models",
]
