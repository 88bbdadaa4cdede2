"""Reads vendor messages in which any field may be missing, with `tillerman.core.json_fields`."""

from tillerman.core.json_fields import (
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
