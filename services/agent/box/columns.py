"""Prints the columns of a table with their types as one line of JSON: names and types, no value of it."""

import csv
import itertools
import json
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

MAX_ROWS = 1000
MAX_COLUMNS = 100
MAX_NAME = 100
MAX_JSON_BYTES = 50_000_000

Columns = list[list[str]]


def type_of(text: str) -> str:
    for name, parse in (("integer", int), ("number", float), ("date", datetime.fromisoformat)):
        try:
            parse(text)
        except ValueError:
            continue
        return name
    return "boolean" if text.lower() in ("true", "false") else "text"


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return type_of(value)
    if isinstance(value, datetime):
        return "date"
    return "list" if isinstance(value, list) else "object" if isinstance(value, dict) else "text"


def common(found: Iterable[str]) -> str:
    kinds = set(found)
    if not kinds:
        return "empty"
    if kinds <= {"integer", "number"}:
        return "number" if "number" in kinds else "integer"
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds & {"list", "object"} else "text"


def by_column(header: list[Any], rows: Iterable[Iterable[Any]], kind: Callable[[Any], str]) -> Columns:
    columns: list[list[str]] = [[] for _ in header]
    for row in rows:
        for cells, value in zip(columns, row, strict=False):
            if value is not None and value != "":
                cells.append(kind(value))
    return [[str(name), common(kinds)] for name, kinds in zip(header, columns, strict=True)]


def separated(path: str, delimiter: str | None) -> Columns:
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        if delimiter is None:
            sample = file.read(65536)
            file.seek(0)
            try:
                delimiter = csv.Sniffer().sniff(sample, ",;\t|").delimiter
            except csv.Error:
                delimiter = ","
        rows = csv.reader(file, delimiter=delimiter)
        header = next(rows, [])[:MAX_COLUMNS]
        return by_column(header, itertools.islice(rows, MAX_ROWS), type_of)


def records(path: str) -> Columns:
    with open(path, encoding="utf-8") as file:
        text = file.read(MAX_JSON_BYTES + 1)
    if len(text) > MAX_JSON_BYTES:
        return []
    try:
        data = json.loads(text)
    except ValueError:
        data = [json.loads(line) for line in itertools.islice(text.splitlines(), MAX_ROWS) if line.strip()]
    items = [item for item in (data if isinstance(data, list) else [data])[:MAX_ROWS] if isinstance(item, dict)]
    header = list(dict.fromkeys(key for item in items for key in item))[:MAX_COLUMNS]
    return by_column(header, ([item.get(key) for key in header] for item in items), kind_of)


def sheet(path: str) -> Columns:
    from openpyxl import load_workbook

    rows = load_workbook(path, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True)
    header = ["" if name is None else name for name in next(rows, ())][:MAX_COLUMNS]
    return by_column(header, itertools.islice(rows, MAX_ROWS), kind_of)


def parquet(path: str) -> Columns:
    from pyarrow.parquet import read_schema

    schema = read_schema(path)
    return [[field.name, str(field.type)] for field in list(schema)[:MAX_COLUMNS]]


READERS = {
    "csv": lambda path: separated(path, None),
    "tsv": lambda path: separated(path, "\t"),
    "json": records,
    "jsonl": records,
    "xlsx": sheet,
    "parquet": parquet,
}

columns = READERS[sys.argv[1].rsplit(".", 1)[-1].lower()]("./" + sys.argv[1])
print(json.dumps([[name[:MAX_NAME], kind[:MAX_NAME]] for name, kind in columns]))
