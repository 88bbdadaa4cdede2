"""Decodes the items of a Codex thread that are tool calls: start, output, end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tillerman.agents.codex.thread_items.file_changes import changes
from tillerman.agents.codex.thread_items.shell_items import CodexCommandOutput
from tillerman.agents.codex.tools import content, tool
from tillerman.agents.decoding.fields import Table, storable, text
from tillerman.core import tools
from tillerman.core.events import (
    Content,
    Event,
    Notice,
    Text,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
)
from tillerman.core.wire import AttachmentBytes

Outcome = Literal["completed", "failed", "denied", "cancelled"]
Said = Iterator[Event | AttachmentBytes]

KINDS = frozenset(
    {"commandExecution", "fileChange", "mcpToolCall", "dynamicToolCall", "functionCallOutput",
     "collabAgentToolCall", "webSearch", "imageView", "imageGeneration", "sleep"}
)  # fmt: skip


class _Call(NamedTuple):
    call_id: str
    tool: str
    name: str
    title: str
    input: Table
    paths: tuple[str, ...]


class _Open(NamedTuple):
    kind: str
    calls: list[_Call]
    parent: str | None
    output: CodexCommandOutput
    thread: str


class Items:
    """`denied`: calls that we refused, which Codex reports only as failed."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._open: dict[str, _Open] = {}
        self._left: dict[str, str] = {}  # titles of commands that continue after their turn
        self._ended: set[str] = set()  # an end may be reported twice, or after ours
        self.denied: set[str] = set()

    # -- received from the wire --------------------------------------------------------------

    def started(self, item: Table, thread: str, parent: str | None) -> Said:
        item_id = text(item, "id")
        if not item_id or item_id in self._open or item_id in self._ended:
            return
        calls = self._calls(item, item_id)
        self._open[item_id] = _Open(text(item, "type"), calls, parent, CodexCommandOutput(), thread)
        for call in calls:
            yield self._started(call, parent)

    def output(self, item_id: str, piece: str) -> Said:
        one = self._open.get(item_id)
        if one and piece and (shown := one.output.add(piece)):
            yield ToolUpdated(call_id=item_id, content=(shown,), parent=one.parent)

    def progress(self, item_id: str, message: str) -> Said:
        one = self._open.get(item_id)
        if one and message:
            content = (Text(message),)
            yield ToolUpdated(call_id=item_id, content=content, parent=one.parent)

    def completed(self, item: Table, thread: str, parent: str | None) -> Said:
        item_id = text(item, "id")
        if title := self._left.pop(item_id, ""):
            code = item.get("exitCode")
            how = f"with exit code {code}" if type(code) is int else "without an exit code"
            text_ = f"{title}, left running by an earlier turn, ended {how}"
            yield Notice(level="info", kind="session", text=text_, parent=parent)
            return
        if item_id in self._ended:
            return
        if item_id not in self._open:
            yield from self.started(item, thread, parent)
        one = self._open.pop(item_id, None)
        if one is None:
            return
        self._ended.add(item_id)
        outcome = self._outcome(item, item_id)
        self.denied.discard(item_id)
        for index, call in enumerate(self._all_calls(one, item, item_id)):
            if index >= len(one.calls):
                yield self._started(call, one.parent)
            shown: list[Content] = []
            for part in content(item, index, outcome, one.output):
                if isinstance(part, AttachmentBytes):
                    yield part
                else:
                    shown.append(part)
            yield ToolFinished(
                call_id=call.call_id, outcome=outcome, content=tuple(shown), parent=one.parent
            )

    # -- queries -----------------------------------------------------------------------------

    def running(self) -> set[str]:
        """Threads with a running command."""
        return {one.thread for one in self._open.values() if one.kind == "commandExecution"}

    def calls(self, item_id: str) -> list[_Call]:
        one = self._open.get(item_id)
        return one.calls if one else []

    def asking(self, server: str, arguments: Table) -> str | None:
        """The open call that an MCP approval is about, since its request names no item."""
        for item_id, one in reversed(self._open.items()):
            for call in one.calls:
                same = call.tool == "MCP" and call.name.startswith(f"{server}.")
                if same and (not arguments or call.input == arguments):
                    return item_id
        return None

    def drop(self, *, run_on: bool, parent: str | None = None) -> Iterator[Event]:
        """Ends open calls at the end of the turn. A command that was not stopped keeps running."""
        for item_id, one in [(id, one) for id, one in self._open.items() if one.parent == parent]:
            del self._open[item_id]
            self._ended.add(item_id)
            for call in one.calls:
                yield from self.drop(run_on=run_on, parent=call.call_id)
                so_far = one.output.text()
                shown: list[Content] = [so_far] if so_far else []
                outcome: Outcome = "cancelled"
                if run_on and one.kind == "commandExecution":
                    outcome = "completed"
                    shown.append(Text("(it continues in the background)"))
                    self._left[item_id] = call.title
                yield ToolFinished(
                    call_id=call.call_id, outcome=outcome, content=tuple(shown), parent=parent
                )

    # -- building calls ----------------------------------------------------------------------

    def _started(self, call: _Call, parent: str | None) -> ToolStarted:
        return ToolStarted(
            call_id=call.call_id,
            tool=call.tool,
            name=call.name,
            title=call.title,
            input=call.input,
            paths=call.paths,
            parent=parent,
        )

    def _all_calls(self, one: _Open, item: Table, item_id: str) -> list[_Call]:
        """The started calls, and further ones of the finished item."""
        if one.kind != "fileChange":
            return one.calls
        return one.calls + self._calls(item, item_id)[len(one.calls) :]

    def _calls(self, item: Table, item_id: str) -> list[_Call]:
        kind = text(item, "type")
        if kind == "fileChange":
            return [
                self._call(
                    f"{item_id}:{index}" if index else item_id,
                    change.tool,
                    "apply_patch",
                    storable(change.input),
                    change.paths,
                )
                for index, change in enumerate(changes(item))
            ]
        word, name, input = tool(kind, item)
        return [self._call(item_id, word, name, input, tools.paths_of(input))]

    def _call(
        self, call_id: str, tool: str, name: str, input: Table, paths: tuple[str, ...]
    ) -> _Call:
        title = tools.title(tool, input, name=name, cwd=self._cwd)
        return _Call(call_id, tool, name, title, input, paths)

    def _outcome(self, item: Table, item_id: str) -> Outcome:
        match text(item, "status"):
            case "declined":
                return "denied"
            case "failed":
                return "denied" if item_id in self.denied else "failed"
            case "interrupted":
                return "cancelled"
        return "failed" if item.get("success") is False else "completed"
