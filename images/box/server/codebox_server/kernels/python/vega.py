"""Charts of Altair: as HTML, its default, and as the Vega-Lite that they are, for apps that draw it themselves."""

from __future__ import annotations

from typing import Any

from codebox_server.kernels.python.after_import import after_import


def install() -> None:
    """Show both from now on. Altair is not imported for it."""
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


def _bundle(answer: Any) -> dict[str, Any]:
    """What a renderer answers: a MIME bundle, or one with metadata."""
    return answer[0] if isinstance(answer, tuple) else answer
