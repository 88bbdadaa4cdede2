"""A message read as if every field could be missing: what `bridle.core.fields` has, for wires."""

from bridle.core.fields import (
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
