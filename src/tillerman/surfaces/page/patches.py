"""What a page has to change to show the newest state: operations on blocks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tillerman.surfaces.page.conversation import PageBlock, PageConversation, turn_id


class Put(msgspec.Struct, frozen=True, tag="put", tag_field="op"):
    """Sets a block: replaces the one with this id, or places it after another in its parent."""

    id: str
    parent: str
    after: str | None  # None: it is the first one
    html: str


class Add(msgspec.Struct, frozen=True, tag="add", tag_field="op"):
    """Adds text at the end of a growing block that has `at` UTF-16 units; else the page reloads."""

    id: str
    at: int
    text: str


class Delete(msgspec.Struct, frozen=True, tag="del", tag_field="op"):
    id: str


Operation = Put | Add | Delete


class PagePatch(msgspec.Struct, frozen=True):
    seq: int
    ops: list[Operation]


TURNS = "turns"  # the element that the turns lie in
_encoder = msgspec.json.Encoder()


def conversation_frame(
    conversation: PageConversation, since: int, first_turn: int = 0
) -> PagePatch:
    """All changes after an entry, for a page that shows the turns from `first_turn` on."""
    return PagePatch(conversation.seq, list(_operations(conversation, since, first_turn)))


def encoded(frame: PagePatch) -> bytes:
    return _encoder.encode(frame)


def _operations(conversation: PageConversation, since: int, first_turn: int) -> Iterator[Operation]:
    for id in conversation.removed_since(since):
        yield Delete(id)
    changed = [block for block in conversation.changed_since(since) if block.order[0] >= first_turn]
    new_turns = {block.order[0] for block in changed if conversation.born(block.order[0]) > since}
    numbers = conversation.turn_numbers()
    for number in sorted(new_turns):
        at = numbers.index(number)
        after = turn_id(numbers[at - 1]) if at and numbers[at - 1] >= first_turn else None
        yield Put(turn_id(number), TURNS, after, conversation.turn_html(number))
    shown = [block for block in changed if block.order[0] not in new_turns]
    new_parents = {block.id for block in shown if block.born > since}
    for block in sorted(shown, key=lambda one: one.order):
        if block.parent not in new_parents:
            yield _change(conversation, block, since)


def _change(conversation: PageConversation, block: PageBlock, since: int) -> Operation:
    length = block.length_at(since)
    if block.text is not None and length is not None and block.born <= since:
        return Add(block.id, _units(block.text[:length]), block.text[length:])
    return Put(block.id, block.parent, block.previous, conversation.html(block))


def _units(text: str) -> int:
    """The length as JavaScript counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
