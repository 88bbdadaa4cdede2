"""What all sessions of one editor share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tillerman.surfaces.acp.client import ClientCapabilities
from tillerman.surfaces.acp.connection import EditorConnection
from tillerman.surfaces.acp.settings import Offers

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness


@dataclass
class EditorContext:
    harness: Harness
    connection: EditorConnection
    offers: Offers
    agent: str | None  # of new sessions, as on the command line
    requested: dict[str, Any]  # options of sessions, from the command line
    client: ClientCapabilities = field(default_factory=ClientCapabilities)
