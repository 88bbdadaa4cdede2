"""ACP wire of OpenCode: the common wire with OpenCode's deviations.

It does not show the content of a written file. Its session cost accumulates over processes: the
first turn of a resumed session has no known cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.wire import AcpWire
from tillerman.agents.decoding.fields import text
from tillerman.agents.opencode.retries import retry
from tillerman.core.agent import SessionSpec
from tillerman.core.events import Diff, Event, ToolFinished, ToolStarted, UsageReported
from tillerman.core.tools import WRITES
from tillerman.core.wire import AttachmentBytes, WireReply

Said = Event | WireReply | AttachmentBytes


class OpencodeWire(AcpWire):
    def __init__(self, dialect: AcpDialect, spec: SessionSpec) -> None:
        super().__init__(dialect, spec)
        self._writing: dict[str, ToolStarted] = {}
        self._counting = not spec.resume  # the session's cost is known from here on

    def decode(self, line: bytes) -> Iterable[Said]:
        return list(self._shown(super().decode(line)))

    def decode_stderr(self, line: str) -> Iterable[Event]:
        notice = retry(line)
        return [notice] if notice else []

    def _shown(self, decoded: Iterable[Said]) -> Iterator[Said]:
        for one in decoded:
            match one:
                case ToolStarted(tool=tool) if tool in WRITES:
                    self._writing[one.call_id] = one
                    yield one
                case ToolFinished(call_id=call_id) if call_id in self._writing:
                    yield _changed(one, self._writing.pop(call_id))
                case UsageReported() if not self._counting:
                    self._counting = True
                    yield replace(one, cost_usd=None)
                case _:
                    yield one


def _changed(end: ToolFinished, call: ToolStarted) -> ToolFinished:
    """Reduces an edit to its diff, and adds the diff of a written file, which has only text."""
    if end.outcome != "completed":
        return end
    diffs = tuple(part for part in end.content if isinstance(part, Diff))
    if not diffs and "content" in call.input and call.paths:
        diffs = (Diff(call.paths[0], new=text(call.input, "content")),)
    return replace(end, content=diffs or end.content)
