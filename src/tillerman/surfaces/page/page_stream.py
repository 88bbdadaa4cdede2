"""The stream of a page: frames of changed blocks, as server-sent events."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from tillerman.store.session_row import SessionRow
from tillerman.surfaces.page import views
from tillerman.surfaces.page.document import SessionView, heading_html
from tillerman.surfaces.page.patches import PagePatch, Put, conversation_frame, encoded
from tillerman.surfaces.page.request_html import dock_html
from tillerman.surfaces.page.session_list_html import rail_html
from tillerman.surfaces.page.session_pages import SessionPage
from tillerman.surfaces.page.side_panel_html import side_html
from tillerman.surfaces.server.service import Service

PAUSE = 0.05  # seconds between two frames
LIST_EVERY = 1.0  # seconds after which the list of sessions is compared
BEAT = b"event: beat\ndata: {}\n\n"


class StreamPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: int = 0
    first: int = 0


@dataclass
class _Surroundings:
    """The parts around the conversation; each is sent when its HTML has changed."""

    sent: dict[str, bytes] = field(default_factory=dict)

    def changed(self, id: str, parent: str, html: str) -> list[Put]:
        digest = hashlib.blake2b(html.encode(errors="replace"), digest_size=16).digest()
        if self.sent.get(id) == digest:
            return []
        self.sent[id] = digest
        return [Put(id, parent, None, html)]


async def frames(
    service: Service, row: SessionRow, page: SessionPage, follow: StreamPosition, csrf: str
) -> AsyncIterator[bytes]:
    """Never ends by itself. A slow reader gets fewer and larger frames."""
    around = _Surroundings()
    seq, compared, side = follow.since, 0.0, ""
    loop = asyncio.get_running_loop()
    async with service.feeds.following(row.id) as feed:
        while not feed.closed:
            await page.refresh()
            now = loop.time()
            conversation = page.conversation
            frame = conversation_frame(conversation, seq, follow.first)
            ops = list(frame.ops)
            moved = bool(ops) or frame.seq != seq
            if moved or now - compared >= LIST_EVERY:
                compared = now
                row = service.harness.sessions.catalog.get(row.id)
                view = session_view(service, row, page, follow.first)
                if not side or (moved and row.open_turn is None):
                    side = side_html(await views.side(service, row, page.transcript))
                entries = views.rail(service.harness)
                total = service.harness.sessions.catalog.count()
                ops += around.changed("sessions", "rail", rail_html(entries, total, row.id))
                ops += around.changed("dock", "main", dock_html(view.request, csrf))
                ops += around.changed("heading", "main", heading_html(view))
                ops += around.changed("side-in", "side", side)
            if ops or frame.seq != seq:
                seq = frame.seq
                yield b"id: %d\nevent: frame\ndata: %b\n\n" % (seq, encoded(PagePatch(seq, ops)))
                await asyncio.sleep(PAUSE)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(LIST_EVERY):
                    if await feed.frame(seq) is None:
                        yield BEAT


def session_view(service: Service, row: SessionRow, page: SessionPage, first: int) -> SessionView:
    transcript = page.transcript
    return SessionView(
        id=row.id,
        title=views.title_of(row),
        agent=row.agent,
        model=transcript.model or row.model,
        folder=views.folder_of(row),
        running=row.open_turn is not None,
        conversation=page.conversation,
        first_turn=first,
        request=views.open_request(service.harness, row),
        composer=views.composer(row, transcript),
    )
