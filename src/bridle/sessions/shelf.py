"""What is kept beside the log: attached files by hash, and whole messages to search in."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from bridle.core.agent import File
from bridle.core.events import (
    Attachment,
    Event,
    MessageChunk,
    MessageWithdrawn,
    TurnStarted,
    UserMessage,
)
from bridle.store.attachments import Attachments
from bridle.store.search import Role, Search

_INDEXED = frozenset({TurnStarted, UserMessage, MessageChunk, MessageWithdrawn})
MOST_TEXT = 1024 * 1024  # characters of one turn that are indexed


class Shelf:
    def __init__(self, session: str, search: Search, attachments: Attachments) -> None:
        self._session = session
        self._search = search
        self._attachments = attachments
        self._said: defaultdict[int, list[tuple[Role, str]]] = defaultdict(list)
        self._messages: defaultdict[int, dict[str, list[str]]] = defaultdict(dict)
        self._sizes: defaultdict[int, int] = defaultdict(int)

    def keep(self, files: Sequence[File]) -> tuple[Attachment, ...]:
        kept = []
        for file in files:
            self._attachments.put(self._session, file.data)
            name = hashlib.sha256(file.data).hexdigest()
            kept.append(Attachment(file.name, file.mime, name, len(file.data)))
        return tuple(kept)

    def note(self, turn: int, event: Event) -> None:
        if type(event) not in _INDEXED:
            return
        match event:
            case TurnStarted(prompt=str(text)) | UserMessage(text=text):
                self._said[turn].append(("user", text))
            case MessageChunk(message_id=message_id, text=text):
                if self._sizes[turn] < MOST_TEXT:
                    self._sizes[turn] += len(text)
                    self._messages[turn].setdefault(message_id, []).append(text)
            case MessageWithdrawn(message_id=message_id):
                self._messages[turn].pop(message_id, None)

    def index(self, turn: int | None) -> None:
        """The turn is over: its messages can be found from now on."""
        if turn is None:
            return
        said = self._said.pop(turn, [])
        said += [("agent", "".join(parts)) for parts in self._messages.pop(turn, {}).values()]
        self._sizes.pop(turn, None)
        if said:
            self._search.index(self._session, turn, said)
