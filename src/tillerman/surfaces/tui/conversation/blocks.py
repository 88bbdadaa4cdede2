"""Splits the transcript into conversation blocks with cached rendering."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from tillerman.core.events import Entry, PermissionRequested
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
from tillerman.surfaces.rendering.markdown_stream import Block as Sealed
from tillerman.surfaces.rendering.markdown_stream import MarkdownStream

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.strip import Strip

TAIL_LINES = 400  # maximum lines shown of an unfinished block


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """The prompt of a turn."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """A complete Markdown block of a message."""

    block: Sealed


@dataclass(frozen=True, slots=True)
class StreamingBlock:
    """The unfinished rest of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnEndBlock:
    """The outcome of a turn."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class CommandBlock:
    """Output of tillerman itself, such as of a slash command; not part of the log."""

    title: str
    body: RenderableType
    whole: RenderableType | None = None  # content when unfolded, if more


Thing = PromptBlock | MessageBlock | StreamingBlock | TurnEndBlock | CommandBlock | Block


@dataclass(eq=False, slots=True)
class ConversationBlock:
    """A block on the screen; redrawn when its stamp changes."""

    thing: Thing
    stamp: Hashable = None
    unfolded: bool = False
    drawn: tuple[int, list[Strip]] | None = None  # (width, lines)
    leads: bool = False  # another tool call follows without a blank line

    @property
    def foldable(self) -> bool:
        if isinstance(self.thing, CommandBlock):
            return self.thing.whole is not None
        return isinstance(self.thing, Thought | ToolCallBlock)

    def toggle(self) -> None:
        self.unfolded, self.drawn = not self.unfolded, None


@dataclass(slots=True)
class _Span:
    """The blocks of a turn, and the index of the first one."""

    start: int
    pieces: list[ConversationBlock] = field(default_factory=list)
    moving: bool = True  # it may change without new entries of its turn


class BlockList:
    """The blocks of a transcript, in order; `refresh` updates them after `add`."""

    def __init__(self) -> None:
        self.pieces: list[ConversationBlock] = []
        self._folding = Fold()
        self._touched: set[int] = set()
        self._spans: dict[int, _Span] = {}
        self._known: dict[
            Hashable, tuple[object, ConversationBlock | _Speech]
        ] = {}  # (shown object, block)
        self._command_blocks: dict[int, list[ConversationBlock]] = {}  # by the turn they follow

    @property
    def transcript(self) -> Transcript:
        return self._folding.transcript

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._folding.add(entry)
            self._touched.add(entry.turn)

    def report(
        self, command_block: CommandBlock, instead: ConversationBlock | None = None
    ) -> ConversationBlock:
        """Shows a command block at the current end, or in place of `instead`. Not logged."""
        if instead:
            instead.thing, instead.drawn = command_block, None
            return instead
        turns = self.transcript.turns
        number = turns[-1].number if turns else 0
        piece = ConversationBlock(command_block)
        self._command_blocks.setdefault(number, []).append(piece)
        self._touched.add(number)
        return piece

    def take_over(self, other: BlockList) -> None:
        """Takes over command blocks and unfold states of a list with less of the same session."""
        self._command_blocks = other._command_blocks
        self._touched |= set(other._command_blocks)
        self.refresh()
        for number, span in other._spans.items():
            mine = self._spans[number].pieces
            for piece, theirs in zip(reversed(mine), reversed(span.pieces), strict=False):
                piece.unfolded = theirs.unfolded

    def refresh(self, tick: int = 0) -> None:
        changed = self._touched | {number for number, span in self._spans.items() if span.moving}
        self._touched = set()
        numbers = [0, *(turn.number for turn in self.transcript.turns)]
        first = next((at for at, number in enumerate(numbers) if number in changed), None)
        if first is None:
            return
        numbers = numbers[first:]
        known = self._spans.get(numbers[0])
        start = known.start if known else len(self.pieces)
        fresh: list[ConversationBlock] = []
        for number in numbers:
            span = self._spans.get(number)
            if span is None or number in changed:
                span = self._spans[number] = self._span(number, tick)
            span.start = start + len(fresh)
            fresh += span.pieces
        self.pieces[start:] = fresh

    def _span(self, number: int, tick: int) -> _Span:
        turn = self.transcript.turn(number)
        blocks = turn.blocks if turn else self.transcript.opening
        running = turn is not None and turn.status == "running"
        pieces: list[ConversationBlock] = []
        if turn and turn.prompt is not None:
            pieces.append(self._piece(("prompt", number), PromptBlock(turn)))
        for at, block in enumerate(blocks):
            pieces += self._of_block(block, not running or at < len(blocks) - 1, tick)
        if turn and not running:
            stamp = (turn.usage, turn.files, turn.files_left_out)
            pieces.append(self._piece(("end", number), TurnEndBlock(turn), stamp))
        pieces += self._command_blocks.get(number, ())
        _gather(pieces)
        return _Span(0, pieces, running or any(map(_moves, blocks)))

    def _of_block(self, block: Block, ended: bool, tick: int) -> list[ConversationBlock]:
        if not isinstance(block, Message):
            return [self._piece(id(block), block, _stamp(block, ended, tick))]
        speech = self._known.setdefault(id(block), (block, _Speech(block)))[1]
        assert isinstance(speech, _Speech)
        return speech.pieces(ended)

    def _piece(self, key: Hashable, thing: Thing, stamp: Hashable = None) -> ConversationBlock:
        piece = self._known.setdefault(key, (thing, ConversationBlock(thing, stamp)))[1]
        assert isinstance(piece, ConversationBlock)
        if piece.stamp != stamp:
            piece.thing, piece.stamp, piece.drawn = thing, stamp, None
        return piece


class _Speech:
    """The blocks of one message: the complete ones, and the streaming rest."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._prose = MarkdownStream()
        self._read = 0
        self._sealed: list[ConversationBlock] = []
        self._tail = ConversationBlock(StreamingBlock(""))

    def pieces(self, ended: bool) -> list[ConversationBlock]:
        text = self._message.text
        if len(text) > self._read:
            self._seal(self._prose.feed(text[self._read :]))
            self._read = len(text)
        if ended:
            self._seal(self._prose.end())
        tail = self._prose.tail(TAIL_LINES)
        if tail != self._tail.stamp:
            self._tail = ConversationBlock(StreamingBlock(tail), tail)
        return [*self._sealed, self._tail] if tail.strip() else self._sealed

    def _seal(self, blocks: list[Sealed]) -> None:
        self._sealed += [ConversationBlock(MessageBlock(block)) for block in blocks]


def is_silent(thing: Thing) -> bool:
    """True for requests that the policy allowed, which are not shown."""
    return (
        isinstance(thing, RequestBlock)
        and isinstance(thing.asked, PermissionRequested)
        and thing.by == "policy"
        and thing.answer is not None
        and thing.answer.option == "allow"
    )


def _gather(pieces: Iterable[ConversationBlock]) -> None:
    """Groups consecutive tool calls."""
    seen = [piece for piece in pieces if not is_silent(piece.thing)]
    for piece, after in zip_longest(seen, seen[1:]):
        leads = after is not None and isinstance(after.thing, ToolCallBlock)
        if leads != piece.leads and isinstance(piece.thing, ToolCallBlock):
            piece.leads, piece.drawn = leads, None


def _moves(block: Block) -> bool:
    match block:
        case ToolCallBlock():
            return any(call.state == "running" for call in calls_of([block]))
        case RequestBlock():
            return block.open
        case _:
            return False


def _stamp(block: Block, ended: bool, tick: int) -> Hashable:
    """A value that changes whenever the rendering of the block changes."""
    match block:
        case Thought():
            return (len(block.text), ended)
        case ToolCallBlock():
            inside = sum(1 for _ in calls_of(block.blocks)) if block.blocks else 0
            moving = tick if block.state == "running" else None
            return (block.state, block.title, id(block.content), inside, moving)
        case RequestBlock():
            return block.by
        case PlanBlock():
            return block.steps
        case _:
            return None
