"""`/codebox/health`, `/codebox/warm`, `/codebox/bind` and `/codebox/stop`."""

from __future__ import annotations

from codebox_server.errors import BoxError
from codebox_server.http.base import BoxHandler, env_field, optional_text, text_field


class HealthHandler(BoxHandler):
    """Answers once the server can serve."""

    async def get(self) -> None:
        """`{"status":"ok","languages":[…]}`."""
        self.send_json({"status": "ok", "languages": list(self.box.specs.find_kernel_specs())})


class WarmHandler(BoxHandler):
    """Makes a box ready for an owner who is not known yet."""

    async def post(self) -> None:
        """`{languages}`: answers once a kernel of each has shown that it works."""
        languages = self.body_fields({"languages"}).get("languages")
        known = self.box.specs.find_kernel_specs()
        if not isinstance(languages, list) or not all(isinstance(one, str) and one in known for one in languages):
            raise BoxError("invalid_request", f"languages has to be a list of {', '.join(known)}", "/languages")
        await self.box.warm(languages)
        self.send_nothing()


class BindHandler(BoxHandler):
    """What a warm box is told when it gets an owner."""

    async def post(self) -> None:
        """`{env, network?}`: replace the bound environment. Answers once everything has it, kernels that live too."""
        fields = self.body_fields({"env", "network"})
        network = optional_text(fields, "network")
        if network not in (None, "none", "internet"):
            raise BoxError("invalid_request", "network has to be none or internet", "/network")
        await self.box.bind(env_field(fields), network)
        self.send_nothing()


class StopHandler(BoxHandler):
    """The end of all that runs, because it may have no more CPU time. Files stay."""

    async def post(self) -> None:
        """`{detail, quota}`, for the causes. Answers when terminals have ended; those of runs come as their `done`."""
        fields = self.body_fields({"detail", "quota"})
        quota = fields.get("quota")
        if not isinstance(quota, dict):
            raise BoxError("invalid_request", "quota has to be an object", "/quota")
        await self.box.stop({"detail": text_field(fields, "detail"), "quota": quota})
        self.send_nothing()
