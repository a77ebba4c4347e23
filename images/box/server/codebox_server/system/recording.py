"""The log of an application of traitlets."""

from __future__ import annotations

from typing import Any

from traitlets.config import Application


class RecordsItsLevel(Application):
    """What is below the level of the application is not even recorded: in stock traitlets, a handler drops it."""

    def get_default_logging_config(self) -> Any:
        """As in stock traitlets, with the level at the logger too."""
        config = super().get_default_logging_config()
        config["loggers"][type(self).__name__]["level"] = self.log_level
        return config
