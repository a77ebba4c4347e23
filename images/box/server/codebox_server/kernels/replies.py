"""A kernel answers every request to run code, also when the kernel itself fails or is interrupted beside the code."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from ipykernel.kernelbase import Kernel


class RepliesMixin(Kernel):
    """Marks in the metadata of its answer what no code is to blame for."""

    async def execute_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """As stock, where an exception leaves the request without an answer for ever."""
        try:
            await super().execute_request(stream, ident, parent)
        except Exception as error:
            self.log.exception("the kernel failed")
            # What code has put in their place may be what failed.
            sys.stdout, sys.stderr = self._stdout, self._stderr
            fault = {"codebox": {"fault": f"{type(error).__name__}: {error}"}}
            self._reply_error(stream, ident, parent, error, fault)
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            # It came before the code or after it.
            self._reply_error(stream, ident, parent, error, {})

    def _reply_error(self, stream: Any, ident: Any, parent: Any, error: BaseException, metadata: Any) -> None:
        told = {"ename": type(error).__name__, "evalue": str(error), "traceback": []}
        content = {"status": "error", "execution_count": self.execution_count, **told}
        self.session.send(stream, "execute_reply", content, parent, metadata=metadata, ident=ident)
