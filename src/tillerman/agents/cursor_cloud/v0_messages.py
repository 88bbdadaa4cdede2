"""Translates the conversation of an agent of version 0, which has no stream, into events."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.agents.decoding.fields import Table, text
from tillerman.core.cloud import CloudAgent
from tillerman.core.events import Event, MessageChunk, TurnEnded, UserMessage
from tillerman.core.failure import Failure


def events_of(id: str, messages: Sequence[Table], known: int) -> list[Event]:
    """The messages of version 0; those of the user came from us, or are imported."""
    found: list[Event] = []
    for number, one in enumerate(messages[known:], known):
        words = text(one, "text")
        if text(one, "type") == "user_message":
            found.append(UserMessage(text=words, how="imported"))
        elif words:
            found.append(MessageChunk(message_id=text(one, "id") or f"{id}:{number}", text=words))
    return found


def ending_of(agent: CloudAgent) -> TurnEnded:
    if agent.state == "cancelled":
        return TurnEnded(reason="cancelled")
    if agent.state in ("failed", "expired"):
        message = agent.summary or f"the cloud agent ended with {agent.status}"
        hint = f"its page: {agent.url}" if agent.url else "prompt it again"
        return TurnEnded(
            reason="failed", failure=Failure(kind="agent_failed", message=message, hint=hint)
        )
    return TurnEnded(reason="completed")
