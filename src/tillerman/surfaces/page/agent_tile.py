"""The badge of an agent: two letters on a tinted background."""

from __future__ import annotations

import re

from tillerman.surfaces.page.html_text import escaped


def tile(agent: str | None) -> str:
    """The first and the last letter of its name, which tell the known agents apart."""
    name = re.sub(r"[^a-z0-9]", "", (agent or "").partition(":")[0].lower())
    letters = f"{name[:1].upper()}{name[-1:]}" if name else "?"
    return f'<span class="tile a-{escaped(name)}" aria-hidden="true">{letters}</span>'


def agent_name(agent: str | None) -> str:
    """The name for people, which begins with a capital letter."""
    name = agent or "agent"
    return name[:1].upper() + name[1:]
