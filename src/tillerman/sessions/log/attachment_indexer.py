"""Stores attachments by hash, and indexes whole messages for full-text search.

The agent gets a file unchanged; the stored copy is redacted like everything else.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from io import StringIO

from tillerman.core.agent import File
from tillerman.core.events import (
    Attachment,
    Event,
    MessageChunk,
    MessageWithdrawn,
    TurnStarted,
    UserMessage,
)
from tillerman.store.attachments import AttachmentStore
from tillerman.store.search import Role, Search
from tillerman.supervision.secrets import Secrets

INDEXED = frozenset({TurnStarted, UserMessage, MessageChunk, MessageWithdrawn})
MOST_TEXT = 1024 * 1024  # characters of one turn that are indexed
MESSAGE_COST = 1024  # bytes of memory per message besides its text


class AttachmentIndexer:
    def __init__(
        self, session: str, search: Search, attachments: AttachmentStore, secrets: Secrets
    ) -> None:
        self._session = session
        self._secrets = secrets
        self._search = search
        self._attachments = attachments
        self._texts: defaultdict[int, list[tuple[Role, str]]] = defaultdict(list)
        self._messages: defaultdict[int, dict[str, StringIO]] = defaultdict(dict)
        self._sizes: defaultdict[int, int] = defaultdict(int)

    def store_files(self, files: Sequence[File]) -> tuple[Attachment, ...]:
        stored = []
        for file in files:
            data = self._secrets.redact(file.data)
            self._attachments.put(self._session, data)
            name = hashlib.sha256(data).hexdigest()
            stored.append(Attachment(file.name, file.mime, name, len(file.data)))
        return tuple(stored)

    def store_images(self, pictures: Sequence[bytes]) -> None:
        for data in pictures:
            self._attachments.put(self._session, data)

    def note(self, turn: int, event: Event) -> None:
        """Notes an event of a type in INDEXED; others have no effect."""
        match event:
            case MessageChunk(message_id=message_id, text=text):
                if self._sizes[turn] < MOST_TEXT:
                    self._add_text(turn, message_id, text)
            case UserMessage(how="handoff"):
                pass  # it repeats text that is indexed already
            case TurnStarted(prompt=str(text)) | UserMessage(text=text):
                self._texts[turn].append(("user", text))
            case MessageWithdrawn(message_id=message_id):
                self._messages[turn].pop(message_id, None)

    def _add_text(self, turn: int, message_id: str, text: str) -> None:
        messages, size = self._messages[turn], self._sizes[turn]
        if message_id not in messages:
            messages[message_id] = StringIO()
            size += MESSAGE_COST
        messages[message_id].write(text[: MOST_TEXT - size])
        self._sizes[turn] = size + len(text)

    def index(self, turn: int | None) -> None:
        """Indexes the messages of a turn that has ended."""
        if turn is None:
            return
        texts = self._texts.pop(turn, [])
        texts += [("agent", one.getvalue()) for one in self._messages.pop(turn, {}).values()]
        self._sizes.pop(turn, None)
        if texts:
            self._search.index(self._session, turn, texts)
