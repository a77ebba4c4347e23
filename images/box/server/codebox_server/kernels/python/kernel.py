"""The Python kernel: ipykernel's, which also tells what variables there are and takes another environment."""

from __future__ import annotations

from typing import Any

from ipykernel.ipkernel import IPythonKernel

from codebox_server.kernels.environment import EnvironmentMixin
from codebox_server.kernels.outstream import note_begin
from codebox_server.kernels.python.description import variable_names
from codebox_server.kernels.python.inspection import inspect
from codebox_server.kernels.variables import VariablesMixin, page_of


class PythonKernel(VariablesMixin, EnvironmentMixin, IPythonKernel):
    """IPython."""

    def _publish_execute_input(self, code: str, parent: Any, execution_count: int) -> None:
        # As stock, and known too when the code ends the kernel before this has left it.
        metadata = note_begin(parent, execution_count)
        content = {"code": code, "execution_count": execution_count}
        topic = self._topic("execute_input")
        self.session.send(self.iopub_socket, "execute_input", content, parent=parent, ident=topic, metadata=metadata)

    async def list_variables(self, limit: int, after: str) -> dict[str, Any]:
        """See VariablesMixin."""
        namespace = dict(self.shell.user_ns)
        names, following = page_of(variable_names(namespace, self.shell.user_ns_hidden), limit, after)
        items = await inspect({name: namespace[name] for name in names})
        return {"items": items, "following": following}
