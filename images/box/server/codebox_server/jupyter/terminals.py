"""Jupyter's terminals as an extension that nothing configures."""

from __future__ import annotations

from typing import Any

from jupyter_server_terminals.app import TerminalsExtensionApp


class BoxTerminals(TerminalsExtensionApp):
    """Stock terminals, without arguments and without files in a home."""

    def parse_command_line(self, argv: Any = None) -> None:
        """Do nothing, as in BoxServerApp."""

    def load_config_file(self, suppress_errors: bool = True) -> None:  # type: ignore[override]
        """Do nothing, as in BoxServerApp."""


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__, "app": BoxTerminals}]
