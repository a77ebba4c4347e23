"""Altair charts: as HTML, the default, and as Vega-Lite, for apps that draw them themselves."""

from __future__ import annotations

from typing import Any

from codebox_server.kernels.python.after_import import after_import


def install() -> None:
    """Show both from now on, without importing Altair."""
    after_import("altair", _show_both)


def _show_both(altair: Any) -> None:
    renderers = altair.renderers
    renderers.enable("mimetype")
    vega = renderers.get()
    renderers.enable("default")
    html = renderers.get()

    def both(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        return {**_bundle(html(spec, **metadata)), **_bundle(vega(spec, **metadata))}

    renderers.register("codebox", both)
    renderers.enable("codebox")


def _bundle(rendered: Any) -> dict[str, Any]:
    """Return the MIME bundle of a renderer's result, which may come with metadata."""
    return rendered[0] if isinstance(rendered, tuple) else rendered
