"""Ensures that a kernel replies to every request to run code, also when it fails itself or is interrupted outside the
code.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from ipykernel.kernelbase import Kernel
from jupyter_client.session import Session


class RepliesMixin(Kernel):
    """Marks in the metadata of the reply failures that the code is not to blame for."""

    session: Session

    async def execute_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """As in stock ipykernel, where an exception would leave the request without a reply for ever."""
        try:
            await super().execute_request(stream, ident, parent)
        except Exception as error:
            self.log.exception("the kernel failed")
            # The code may have replaced them, which may be the cause of the failure.
            sys.stdout, sys.stderr = self._stdout, self._stderr
            fault = {"codebox": {"fault": f"{type(error).__name__}: {error}"}}
            self._reply_error(stream, ident, parent, error, fault)
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            # The interrupt came before or after the code.
            self._reply_error(stream, ident, parent, error, {})

    def _reply_error(self, stream: Any, ident: Any, parent: Any, error: BaseException, metadata: Any) -> None:
        error_fields = {"ename": type(error).__name__, "evalue": str(error), "traceback": []}
        content = {"status": "error", "execution_count": self.execution_count, **error_fields}
        self.session.send(stream, "execute_reply", content, parent, metadata=metadata, ident=ident)
