"""`/codebox/variables`: the variables of the default Python context as files of the volume."""

from __future__ import annotations

from codebox_server.http.base import BoxHandler


class SavedVariablesHandler(BoxHandler):
    """Variables for a template: saved in one box, and adopted in another one that has the files of the first.

    `for` names the build that they are saved for.
    """

    async def post(self) -> None:
        """Save them beside the files. Send `{kept, faults: [{name, detail}], more}`; 409 while code runs, or for
        another build until it has removed its own.
        """
        self.send_json(await self.box.variables.save(self.get_query_argument("for", "")))

    async def put(self) -> None:
        """Have new kernels begin with those that can be loaded here. Send the same."""
        self.send_json(await self.box.variables.adopt())

    async def delete(self) -> None:
        """Remove what was saved here for this build."""
        await self.box.variables.drop(self.get_query_argument("for", ""))
        self.send_nothing()
