"""The conversation of a session as a list of HTML blocks, each with the entry that changed it last.

A page that was away gets the blocks that changed since, once each. HTML is made when it is asked
for: a long session opens with its end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tillerman.core.events import Entry
from tillerman.core.transcript.blocks import (
    Block,
    Message,
    PlanBlock,
    RequestBlock,
    Thought,
    ToolCallBlock,
    Turn,
    calls_of,
)
from tillerman.core.transcript.transcript import Fold, Transcript
from tillerman.surfaces.page import block_html
from tillerman.surfaces.page.block_html import is_silent
from tillerman.surfaces.page.html_text import escaped
from tillerman.surfaces.page.markdown_html import markdown_html
from tillerman.surfaces.rendering.markdown_stream import MarkdownStream

RENDERED_TAIL = 4_000  # characters of an unfinished Markdown block that are rendered, not shown raw
_TAIL_LINES = 100_000  # all: a tail has a limited number of characters
FIRST_TURNS = 100  # whose blocks are made when a session is opened
_LENGTHS = 64  # states of a growing text that are remembered


@dataclass(eq=False, slots=True)
class PageBlock:
    """One block of the page. `parent` is the id of the element that it lies in."""

    id: str
    parent: str
    born: int  # the entry that made it
    seq: int  # the entry that changed it last
    stamp: Hashable = None
    thing: Any = None
    order: tuple[int, int] = (0, 0)  # the turn, and the place in it
    previous: str | None = None  # the id of the block before it in the same parent
    children: tuple[PageBlock, ...] = ()
    html: str | None = None  # None: not made yet
    text: str | None = None  # of a block that only grows at its end
    lengths: list[tuple[int, int]] = field(default_factory=list)  # (seq, length of the text)

    def length_at(self, seq: int) -> int | None:
        """How long its text was after an entry; None if that is not known."""
        return next((length for at, length in reversed(self.lengths) if at <= seq), None)


@dataclass(slots=True)
class _TurnBlocks:
    born: int
    blocks: list[PageBlock] = field(default_factory=list)  # parts of a message behind it
    places: dict[int, tuple[object, int]] = field(
        default_factory=dict
    )  # by identity: (block, place)
    messages: dict[int, _MessageParts] = field(default_factory=dict)
    next_place: int = 1


class PageConversation:
    """The blocks of one session; `refresh` updates them after `add`."""

    def __init__(self) -> None:
        self._fold = Fold()
        self._touched: dict[int, int] = {}  # turn -> the last entry that changed it
        self._at = 0  # the entry that the blocks being compared changed with
        self._turns: dict[int, _TurnBlocks] = {}
        self._moving: set[int] = set()  # turns that may change without an entry of theirs
        self._by_id: dict[str, PageBlock] = {}
        self._order: dict[str, PageBlock] = {}  # by id, the block that changed last at the end
        self._in_order = True  # False: blocks of old turns were made after those of newer ones
        self._deferred: dict[int, int] = {}  # turns without blocks yet -> their last entry
        self._removed: list[tuple[int, str]] = []  # (seq, id)
        self._added = 0
        self.seq = 0  # the last entry that the blocks show

    @property
    def transcript(self) -> Transcript:
        return self._fold.transcript

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._fold.add(entry)
            self._touched[entry.turn] = entry.seq
            self._added = entry.seq

    @property
    def added(self) -> int:
        """The last entry that was added."""
        return self._added

    def refresh(self) -> None:
        """Compares the blocks of the turns that got entries with those that are known."""
        self.seq = self._added
        if not self._turns:
            self._defer_old_turns()
        last = {**self._touched, **dict.fromkeys(self._moving, self.seq)}
        self._make_blocks(self._deferred.keys() & last.keys())
        for number, self._at in sorted(last.items(), key=lambda one: (one[1], one[0])):
            self._refresh_turn(number)
        self._touched.clear()

    def turn_numbers(self) -> list[int]:
        """In order; 0 is what came before the first turn."""
        known = [number for number, known in self._turns.items() if known.blocks]
        return sorted([*known, *self._deferred])  # each of these has at least its end

    def changed_since(self, seq: int) -> list[PageBlock]:
        """The blocks that changed after an entry, in the order of their last change."""
        self._make_blocks([number for number, last in self._deferred.items() if last > seq])
        if not self._in_order:
            self._order = dict(sorted(self._order.items(), key=lambda one: one[1].seq))
            self._in_order = True
        found: list[PageBlock] = []
        for id in reversed(self._order):
            block = self._order[id]
            if block.seq <= seq:
                break
            found.append(block)
        found.reverse()
        return found

    def removed_since(self, seq: int) -> list[str]:
        shown = {turn_id(number) for number in self.turn_numbers()}
        gone = [id for at, id in self._removed if at > seq]
        return [id for id in gone if id not in self._by_id and id not in shown]

    def born(self, number: int) -> int:
        """The entry that began the turn."""
        self._make_blocks([number])
        return self._turns[number].born

    def html(self, block: PageBlock) -> str:
        if isinstance(block.thing, _MessageParts):
            inside = "".join(map(self.html, block.children))
            return f'<div class="blk msg" id="{block.id}">{inside}</div>'
        if block.html is None:
            block.html = self._render(block)
        return block.html

    def turn_html(self, number: int) -> str:
        """A whole turn."""
        self._make_blocks([number])
        id = turn_id(number)
        known = self._turns.get(number)
        blocks = known.blocks if known else ()
        body = "".join(self.html(block) for block in blocks if block.parent == id)
        label = f"Turn {number}" if number else "Before the first turn"
        return f'<article class="turn" id="{id}" aria-label="{label}">{body}</article>'

    # -- comparing ---------------------------------------------------------------------------------

    def _defer_old_turns(self) -> None:
        """Blocks of finished turns are made on request, so that a long session opens at once."""
        turns = self.transcript.turns[:-FIRST_TURNS]
        settled = [turn for turn in turns if not any(map(_moves, (*turn.blocks, _TurnEnd(turn))))]
        for turn in settled:
            if turn.number in self._touched:
                self._deferred[turn.number] = self._touched.pop(turn.number)

    def _make_blocks(self, numbers: Iterable[int]) -> None:
        """Of deferred turns."""
        asked = [number for number in numbers if number in self._deferred]
        for number in asked:
            self._at = self._deferred.pop(number)
            self._refresh_turn(number)
            self._in_order = False

    def _refresh_turn(self, number: int) -> None:
        turn = self.transcript.turn(number)
        if number and turn is None:
            return
        known = self._turns.setdefault(number, _TurnBlocks(self._at))
        before = known.blocks
        known.blocks = list(self._current(number, turn, known))
        last: dict[str, str] = {}
        for at, block in enumerate(known.blocks):
            block.order, block.previous = (number, at), last.get(block.parent)
            last[block.parent] = block.id
        if any(_moves(block.thing) for block in known.blocks):
            self._moving.add(number)
        else:
            self._moving.discard(number)
        if known.blocks and not before:
            known.born = self._at
        elif before and not known.blocks:
            self._removed.append((self._at, turn_id(number)))
        present = {block.id for block in known.blocks}
        for gone in before:
            if gone.id not in present:
                del self._by_id[gone.id], self._order[gone.id]
                self._removed.append((self._at, gone.id))

    def _current(self, number: int, turn: Turn | None, known: _TurnBlocks) -> Iterator[PageBlock]:
        parent = turn_id(number)
        if turn and turn.prompt is not None:
            yield self._block(f"b-{number}-0", parent, turn, stamp="prompt")
        blocks = [
            block
            for block in (turn.blocks if turn and number else self.transcript.opening)
            if not is_silent(block)
        ]
        running = turn is not None and turn.status == "running"
        for at, block in enumerate(blocks):
            place = self._place(known, block)
            id = f"b-{number}-{place}"
            if isinstance(block, Message):
                message = known.messages.setdefault(id_of(block), _MessageParts(block))
                ended = not running or at < len(blocks) - 1
                whole = self._block(id, parent, message, stamp="message")
                whole.children = tuple(
                    self._block(f"{id}.{name}", id, part, stamp)
                    for name, part, stamp in message.parts(ended=ended)
                )
                yield whole
                yield from whole.children
            else:
                yield self._block(id, parent, block, stamp_of(block))
        if turn:
            stamp = (turn.status, turn.usage, turn.files, turn.files_left_out, turn.failure)
            yield self._block(f"f-{number}", parent, _TurnEnd(turn), stamp)

    def _place(self, known: _TurnBlocks, block: Block) -> int:
        """Its place in the turn, given once: a message that is withdrawn leaves a gap."""
        found = known.places.get(id_of(block))
        if found is None:
            found = known.places[id_of(block)] = block, known.next_place
            known.next_place += 1
        return found[1]

    def _block(self, id: str, parent: str, thing: Any, stamp: Hashable) -> PageBlock:
        block = self._by_id.get(id)
        if block is None:
            block = self._by_id[id] = self._order[id] = PageBlock(
                id, parent, self._at, self._at, stamp, thing
            )
        elif block.stamp != stamp:
            block.stamp, block.thing, block.html, block.seq = stamp, thing, None, self._at
            self._order[id] = self._order.pop(id)
        else:
            return block
        block.text = thing.text if isinstance(thing, _GrowingText) else None
        if block.text is not None:
            block.lengths = [*block.lengths[-_LENGTHS:], (self._at, len(block.text))]
        return block

    # -- rendering ---------------------------------------------------------------------------------

    def _render(self, block: PageBlock) -> str:
        thing = block.thing
        match thing:
            case Turn():
                return block_html.prompt_html(block.id, thing)
            case _TurnEnd():
                return block_html.turn_end_html(block.id, thing.turn)
            case _Part():
                return block_html.message_part_html(block.id, thing.text, verbatim=thing.verbatim)
            case _Tail():
                body = markdown_html(thing.text)
                return f'<div class="part grow" id="{block.id}">{body}</div>'
            case _GrowingText():
                text = f'<p class="source">{escaped(thing.text)}</p>'
                return f'<div class="part grow" id="{block.id}">{text}</div>'
            case _:
                return block_html.block_html(block.id, thing)


@dataclass(frozen=True, slots=True)
class _TurnEnd:
    turn: Turn


@dataclass(frozen=True, slots=True)
class _Part:
    """A finished Markdown block."""

    text: str
    verbatim: bool


@dataclass(frozen=True, slots=True)
class _Tail:
    """The unfinished Markdown block at the end of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class _GrowingText:
    """A long unfinished block, shown as it is: new text is added at its end."""

    text: str


class _MessageParts:
    """Splits a message into finished Markdown blocks and an unfinished rest."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._stream = MarkdownStream()
        self._read = 0
        self._finished: list[_Part] = []

    def parts(self, *, ended: bool) -> Iterator[tuple[int, object, Hashable]]:
        """The name, the content and the stamp of each part."""
        text = self._message.text
        if len(text) > self._read:
            self._add(self._stream.feed(text[self._read :]))
            self._read = len(text)
        if ended:
            self._add(self._stream.end())
        for at, part in enumerate(self._finished):
            yield at, part, "finished"
        tail = self._stream.tail(_TAIL_LINES)
        if tail.strip():
            kind = _Tail if len(tail) <= RENDERED_TAIL else _GrowingText
            yield len(self._finished), kind(tail), (kind.__name__, len(tail))

    def _add(self, blocks: Iterable[Any]) -> None:
        self._finished += [_Part(block.text, block.verbatim) for block in blocks]


def _moves(thing: object) -> bool:
    match thing:
        case ToolCallBlock():
            return any(call.state == "running" for call in calls_of([thing]))
        case RequestBlock():
            return thing.open
        case _TurnEnd():
            return thing.turn.status == "running"
        case _:
            return False


def turn_id(number: int) -> str:
    return f"t-{number}"


def id_of(block: object) -> int:
    return id(block)


def stamp_of(block: Block) -> Hashable:
    """A value that changes whenever the HTML of the block changes."""
    match block:
        case Thought():
            return len(block.text)
        case ToolCallBlock():
            inside = tuple((call.state, call.title) for call in calls_of(block.blocks))
            return (block.state, block.title, id(block.content), inside, len(block.blocks))
        case RequestBlock():
            return block.by
        case PlanBlock():
            return block.steps
        case _:
            return None
