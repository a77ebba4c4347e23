"""The box as a whole: its health and contents, warming, binding, its network, stopping and sealing."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from codebox_server.contents.contents import contents_of
from codebox_server.errors import BoxError, from_os_error
from codebox_server.files.upload import put_file
from codebox_server.http.base import BoxHandler, env_field, text_field
from codebox_server.system.confinement import is_confined

# The version of the requests of gateways; it rises when a gateway of the version before would no longer be understood.
API = 1
# Abilities that other box servers may lack: a gateway uses each only where it is listed.
ABILITIES = [
    "changes",
    "checkpoint",
    "contents",
    "folder",
    "jupyter",
    "keys",
    "network",
    "notebooks",
    "output",
    "packages",
    "ports",
    "python",
    "runs",
    "seal",
    "search",
    "stop",
    "terminals",
    "unattended",
    "variables",
    "watch",
]

_FAULTS_OF_A_PATH = ("conflict", "not_found", "invalid_request")


class HealthHandler(BoxHandler):
    """Responds once the server can serve.

    The ability `confined` is that of a box whose code cannot create sockets and pipes in its volumes.
    """

    async def get(self) -> None:
        """`{"status":"ok","instance":"…","api":1,"abilities":[…],"languages":[…]}`."""
        instance, languages = self.box.settings.instance, list(self.box.specs.find_kernel_specs())
        abilities = [*ABILITIES, "confined"] if is_confined() else ABILITIES
        health = {"status": "ok", "instance": instance, "api": API, "abilities": abilities, "languages": languages}
        self.send_json(health)


class ContentsHandler(BoxHandler):
    """What came with the image."""

    async def get(self) -> None:
        """`{"packages":[{"name","version"}],"programs":[{"name","version"}]}`."""
        inventory = self.box.installer.inventory
        self.send_json(await asyncio.to_thread(contents_of, inventory, self.box.settings.programs))


class WarmHandler(BoxHandler):
    """Makes a box ready for an owner who is not known yet."""

    async def post(self) -> None:
        """Accept `{languages}`; respond once a kernel of each language has proven that it works."""
        languages = self.body_fields({"languages"}).get("languages")
        known = self.box.specs.find_kernel_specs()
        if not isinstance(languages, list) or not all(isinstance(one, str) and one in known for one in languages):
            raise BoxError("invalid_request", f"languages has to be a list of {', '.join(known)}", "/languages")
        await self.box.warm(languages)
        self.send_nothing()


def _files_field(fields: dict[str, Any]) -> list[tuple[str, bytes]]:
    files = fields.get("files", [])
    if not isinstance(files, list) or not all(
        isinstance(one, dict) and one.keys() == {"path", "base64"} for one in files
    ):
        raise BoxError("invalid_request", "files has to be a list of path and base64", "/files")
    try:
        return [(text_field(one, "path"), base64.b64decode(text_field(one, "base64"), validate=True)) for one in files]
    except ValueError:
        raise BoxError("invalid_request", "not base64", "/files") from None


class BindHandler(BoxHandler):
    """Gives a warm box its owner's settings."""

    async def post(self) -> None:
        """Accept `{env, network?, files?}`: replace the bound environment and write files, in their order.

        Responds once everything has the environment, including running kernels. A file that cannot be written is
        invalid_request.
        """
        fields = self.body_fields({"env", "network", "files"})
        network = None if fields.get("network") is None else _network_field(fields)
        env, files = env_field(fields), _files_field(fields)
        settings = self.box.settings
        for index, (path, content) in enumerate(files):
            try:
                await put_file(str(settings.data), str(settings.upload), path, content)
            except (BoxError, OSError) as raised:
                error = raised if isinstance(raised, BoxError) else from_os_error(raised)
                code = "invalid_request" if error.code in _FAULTS_OF_A_PATH else error.code
                raise BoxError(code, error.detail, f"/files/{index}/path") from None
        await self.box.bind(env, network)
        self.send_nothing()


class NetworkHandler(BoxHandler):
    """Tells a box in use that it has another network."""

    async def put(self) -> None:
        """Accept `{network}`. Kernels and what they run go on."""
        await self.box.connect(_network_field(self.body_fields({"network"})))
        self.send_nothing()


class StopHandler(BoxHandler):
    """Ends everything that runs because the CPU time is spent. Files stay."""

    async def post(self) -> None:
        """Accept `{detail, quota?}` for the causes. Responds when terminals have ended; the ends of runs are their
        `done` events.
        """
        fields = self.body_fields({"detail", "quota"})
        cause: dict[str, Any] = {"detail": text_field(fields, "detail")}
        if "quota" in fields:
            if not isinstance(fields["quota"], dict):
                raise BoxError("invalid_request", "quota has to be an object", "/quota")
            cause["quota"] = fields["quota"]
        await self.box.stop(cause)
        self.send_nothing()


class SealHandler(BoxHandler):
    """Stops all reports of runs, before the gateway that destroys this box reads how they ended."""

    async def post(self) -> None:
        """Keep and send no event of any run from now on. The runs themselves continue."""
        self.box.journals.seal()
        self.send_nothing()


def _network_field(fields: dict[str, Any]) -> str:
    network = text_field(fields, "network")
    if network not in ("none", "internet"):
        raise BoxError("invalid_request", "network has to be none or internet", "/network")
    return network
