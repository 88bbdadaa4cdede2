"""`tillerman schema`: prints the JSON schema of `--json` output, or that of pipeline files."""

from __future__ import annotations

from argparse import Namespace
from inspect import cleandoc

import msgspec

from tillerman.core.contract import ENTRY_VERSION
from tillerman.core.events import Entry
from tillerman.core.transcript.summary_events import Item
from tillerman.surfaces.cli.views.output import emit


def schema(options: Namespace) -> int:
    if options.pipelines:
        from tillerman.pipelines import file_schema

        emit(file_schema.document())
    else:
        emit(document())
    return 0


def document() -> str:
    (entry, item), parts = msgspec.json.schema_components(
        [Entry, Item], ref_template="#/$defs/{name}"
    )
    for part in parts.values():
        if "description" in part:  # a docstring; Python 3.13 strips its indentation
            part["description"] = cleandoc(part["description"])
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tillerman --json",
        "version": ENTRY_VERSION,
        "description": "A line of `--json` is an entry; a line of `--json=summary` is an item.",
        "oneOf": [{"$ref": "#/$defs/Entry"}, {"$ref": "#/$defs/Item"}],
        "$defs": {**parts, "Item": item},
    }
    assert entry == {"$ref": "#/$defs/Entry"}
    return msgspec.json.format(msgspec.json.encode(whole, order="deterministic"), indent=2).decode()
