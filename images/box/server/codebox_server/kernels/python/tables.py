"""Tables of pandas as data, beside their text and HTML, where the environment asks for it with CODEBOX_TABLES."""

from __future__ import annotations

import json
import os
from typing import Any

from IPython.core.formatters import BaseFormatter
from IPython.core.interactiveshell import InteractiveShell
from traitlets import ObjectName, Unicode

TABLE_MIME = "application/vnd.codebox.table+json"
# A larger table is shown without its data: a client reads it from a file.
CELLS = 100_000
BYTES = 4 * 1024 * 1024


class TableFormatter(BaseFormatter):
    """Formats as a table; any object can provide its own with `_repr_codebox_table_`."""

    format_type = Unicode(TABLE_MIME)
    print_method = ObjectName("_repr_codebox_table_")
    _return_type = dict


def install(shell: InteractiveShell) -> None:
    """Let the shell show tables as data too, without importing pandas."""
    formatter = TableFormatter(parent=shell.display_formatter)
    # Its name before and since pandas 3.
    for module in ("pandas.core.frame", "pandas"):
        formatter.for_type_by_name(module, "DataFrame", _table)
    assert shell.display_formatter is not None
    shell.display_formatter.formatters[TABLE_MIME] = formatter


def _table(frame: Any) -> dict[str, list[Any]] | None:
    """
    Return the values of each column, times as text in ISO 8601.

    None for a table that is too large, has other values, or has several columns of one name.
    """
    if "CODEBOX_TABLES" not in os.environ or max(frame.size, len(frame.columns)) > CELLS:
        return None
    table: dict[str, list[Any]] = {}
    rest = BYTES
    try:
        for at, name in enumerate(map(str, frame.columns)):
            column = frame.iloc[:, at]
            if name in table or _exceeds(column, rest):
                return None
            values = column.to_json(orient="values", date_format="iso")
            rest -= len(values)
            if rest < 0:
                return None
            table[name] = json.loads(values)
    except Exception:
        # The text and the HTML must not be lost because a value has no form in JSON.
        return None
    return table


def _exceeds(column: Any, most: int) -> bool:
    """Whether the texts and lists of a column are longer than this together: encoding them would be for nothing."""
    for value in column:
        most -= len(value) if hasattr(value, "__len__") else 0
        if most < 0:
            return True
    return False
