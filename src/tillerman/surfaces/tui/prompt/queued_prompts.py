"""Queued prompts that wait for the running turn to end, derived from the transcript."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.core.transcript.blocks import TextBlock, Turn

TURNS = 30  # latest turns searched; each consumes one queued prompt


def waiting(turns: Sequence[Turn]) -> list[str]:
    """Oldest first. A cancelled turn clears the queue."""
    queue: list[str] = []
    for turn in turns[-TURNS:]:
        if turn.prompt in queue:
            queue.remove(turn.prompt)
        queue += [
            block.text for block in turn.blocks
            if isinstance(block, TextBlock) and block.how == "queued"
        ]  # fmt: skip
        if turn.status == "cancelled":
            queue.clear()
    return queue
