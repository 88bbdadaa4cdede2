"""A message read as if every field could be missing: what `bridle.core.json_fields` has, for wires."""

from bridle.core.json_fields import (
    Table,
    at,
    count,
    number,
    parse,
    storable,
    strings,
    table,
    tables,
    text,
)

__all__ = [
    "Table",
    "at",
    "count",
    "number",
    "parse",
    "storable",
    "strings",
    "table",
    "tables",
    "text",
]
