"""The client of CodeBox: ``CodeBox`` for ordinary code, ``AsyncCodeBox`` for asyncio."""

from . import models
from ._async.box import AsyncBox, AsyncContexts
from ._async.codebox import AsyncBoxes, AsyncCodeBox
from ._async.files import AsyncFiles
from ._async.runs import AsyncCommands, AsyncExecutions, AsyncNotebooks, AsyncPackages, AsyncRunningCode
from ._async.streams import AsyncEventStream
from ._sync.box import Box, Contexts
from ._sync.codebox import Boxes, CodeBox
from ._sync.files import Files
from ._sync.runs import Commands, Executions, Notebooks, Packages, RunningCode
from ._sync.streams import EventStream
from .errors import CodeBoxError, InputFault, QuotaMet

__all__ = [
    "AsyncBox",
    "AsyncBoxes",
    "AsyncCodeBox",
    "AsyncCommands",
    "AsyncContexts",
    "AsyncEventStream",
    "AsyncExecutions",
    "AsyncFiles",
    "AsyncNotebooks",
    "AsyncPackages",
    "AsyncRunningCode",
    "Box",
    "Boxes",
    "CodeBox",
    "CodeBoxError",
    "Commands",
    "Contexts",
    "EventStream",
    "Executions",
    "Files",
    "InputFault",
    "Notebooks",
    "Packages",
    "QuotaMet",
    "RunningCode",
    "models",
]
