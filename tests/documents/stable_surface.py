"""What version 1 keeps: everything that programs, configs and plug-ins may rely on.

`python -m tests.documents.stable_surface` adds what is new to stable_surface.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import tillerman
from tests import CHECKOUT
from tillerman.config.settings import SETTINGS
from tillerman.core import session_options
from tillerman.core.contract import ENTRY_VERSION, OLDEST
from tillerman.core.errors import TillermanError
from tillerman.core.failure import Failure, FailureKind
from tillerman.surfaces.cli.parsing.argparse_errors import option_strings, subcommands
from tillerman.surfaces.cli.parsing.parser import build
from tillerman.surfaces.exit_codes import exit_code
from tillerman.testing import async_fixtures, pytest_plugin

RECORD = CHECKOUT / "tests/documents/stable_surface.json"


def surface() -> dict[str, list[str]]:
    """By kind; an item is never removed before version 2."""
    kinds = get_args(FailureKind)
    return {
        "commands": sorted(_commands(build(), "tillerman")),
        "exit codes": sorted(
            [f"{kind} {exit_code(Failure(kind=kind, message=''))}" for kind in kinds]
            + [f"{error.__name__} {error.exit_code}" for error in _errors(TillermanError)]
        ),
        "entries": sorted(_entries()),
        "python": sorted(_python()),
        "config": sorted(SETTINGS),
        "fixtures": sorted(
            name
            for module in (pytest_plugin, async_fixtures)
            for name in vars(module)
            if name.startswith("tillerman_")
        ),
        "versions": [f"entry {ENTRY_VERSION}", f"port {OLDEST.port}", f"wire {OLDEST.wire}"],
    }


def _commands(parser: Any, path: str) -> Iterator[str]:
    yield path
    yield from (f"{path} {option}" for option in option_strings(parser))
    for name, inner in subcommands(parser).items():
        yield from _commands(inner, f"{path} {name}")


def _errors(kind: type[TillermanError]) -> Iterator[type[TillermanError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == kind.__module__:
            yield from _errors(below)


def _entries() -> Iterator[str]:
    """The fields of each kind of event and of what it contains, as `tillerman schema` has them."""
    schema = json.loads((CHECKOUT / "docs/events.schema.json").read_text())
    for name, described in schema["$defs"].items():
        yield from (f"{name}.{field}" for field in described.get("properties", ()))


def _python() -> Iterator[str]:
    for name in tillerman.__all__:
        yield f"tillerman.{name}"
    for name in tillerman.sync.__all__:
        yield f"tillerman.sync.{name}"
    for kind in (
        session_options.StartOptions,
        session_options.ResumeOptions,
        session_options.ServeOptions,
    ):
        yield from (f"{kind.__name__}.{name}" for name in kind.__annotations__)
    for made in (
        tillerman.Harness,
        tillerman.Session,
        tillerman.AttachedSession,
        tillerman.sync.SyncHarness,
        tillerman.sync.SyncSession,
        tillerman.Result,
        tillerman.Answer,
        tillerman.TillermanError,
    ):
        names = {*vars(made), *getattr(made, "__struct_fields__", ())}
        yield from (f"{made.__name__}.{name}" for name in names if not name.startswith("_"))


if __name__ == "__main__":
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    merged = {kind: sorted({*kept.get(kind, ()), *items}) for kind, items in surface().items()}
    RECORD.write_text(json.dumps(merged, indent=1) + "\n")
