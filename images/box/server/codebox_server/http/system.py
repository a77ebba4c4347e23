"""`/codebox/health` and `/codebox/bind`."""

from __future__ import annotations

from codebox_server.http.base import BoxHandler, env_field


class HealthHandler(BoxHandler):
    """Answers once the server can serve."""

    async def get(self) -> None:
        """`{"status":"ok","languages":[…]}`."""
        self.send_json({"status": "ok", "languages": list(self.box.specs.find_kernel_specs())})


class BindHandler(BoxHandler):
    """What a warm box is told when it gets an owner."""

    async def post(self) -> None:
        """Replace the bound environment; kernels and commands started from now on have it."""
        self.box.environment.bound = env_field(self.body_fields({"env"}))
        self.box.renew_forks()
        self.send_nothing()
