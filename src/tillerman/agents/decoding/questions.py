"""Decodes questions to the user: text, header, and choices with descriptions."""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, tables, text
from tillerman.core.events import Choice, Question


def question(asked: Table) -> Question:
    return Question(
        text=text(asked, "question"),
        header=text(asked, "header"),
        choices=tuple(
            Choice(text(option, "label"), text(option, "description"))
            for option in tables(asked, "options")
        ),
        many=asked.get("multiSelect", asked.get("multiple")) is True,
    )
