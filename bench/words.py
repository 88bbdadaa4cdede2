"""Generates numbered words with some Markdown; the highest number on screen shows its progress."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NUMBER = re.compile(r"#(\d{6})")
PARAGRAPH = 60
ROUND = 8  # paragraphs, of which one is code and one a list


def words(count: int) -> Iterator[str]:
    """Words that each end with a blank, so that each is one delta."""
    for number in range(count):
        paragraph, place = divmod(number, PARAGRAPH)
        mark = f"#{number:06}"
        kind = paragraph % ROUND
        if place == 0:
            begin = {2: "```python\n", 5: "- "}.get(kind, "")
            yield f"{begin}{mark} "
        elif place == PARAGRAPH - 1:
            yield f"{mark}{chr(10) + '```' if kind == 2 else ''}\n\n "
        elif place % 10 == 0:
            yield f"{mark}{chr(10) if kind == 2 else chr(10) + '- ' if kind == 5 else ''} "
        else:
            yield f"**{mark}** " if place % 17 == 0 and kind != 2 else f"{mark} "


def last_number(screen: str) -> int | None:
    """The highest number on the screen."""
    return max((int(found) for found in _NUMBER.findall(screen)), default=None)
