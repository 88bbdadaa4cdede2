"""The prompts that wait for the running turn to end, as the log tells of them."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.core.transcript_blocks import TextBlock, Turn

TURNS = 30  # that are looked at: each one takes one prompt from the queue


def waiting(turns: Sequence[Turn]) -> list[str]:
    """Oldest first. A turn that was cancelled took the queue with it."""
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
