"""Assembles the tool calls of an ACP turn from partial updates.

A call starts as soon as its input is known: from its `tool_call`, an update, or only from the
permission request. It ends once: by a status, when the agent continues after a denial, or with the
turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from msgspec.structs import replace

from tillerman.agents.acp import content, tools
from tillerman.agents.acp.dialect import AcpDialect, Outcome
from tillerman.agents.decoding.fields import Table, storable, text
from tillerman.core import tools as vocabulary
from tillerman.core.events import (
    Content,
    Cut,
    Diff,
    Event,
    PermissionRequested,
    PlanChanged,
    Text,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
)
from tillerman.core.wire import AttachmentBytes

MOST_RECEIVED = 8 * 1024 * 1024  # characters of one call's output
_FINAL = ("completed", "failed")
_HOLDS_NOTHING = {"cwd"}  # keys of an input that is still incomplete


class AcpToolCall:
    """A call that has not ended."""

    def __init__(self, call_id: str, parent: str | None) -> None:
        self.call_id = call_id
        self.parent = parent
        self.name = ""
        self.title = ""
        self.told: Table = {}  # all members received, newest values
        self.input: Table = {}
        self.content: tuple[Content, ...] = ()
        self.started = False
        self.denied = False
        self.shown = 0  # size of the output already reported
        self.output = ""  # received in chunks
        self.left_out = 0  # bytes dropped from the output

    def receive(self, piece: str) -> None:
        room = MOST_RECEIVED - len(self.output)
        self.output += piece[:room]
        self.left_out += len(piece[room:].encode("utf-8", "replace"))

    @property
    def received(self) -> tuple[Content, ...]:
        if not self.output:
            return ()
        return (Text(self.output, Cut(self.left_out) if self.left_out else None),)


class Calls:
    def __init__(self, dialect: AcpDialect, cwd: str, servers: Collection[str] = ()) -> None:
        self._dialect = dialect
        self._cwd = cwd
        self._servers = servers
        self._open: dict[str, AcpToolCall] = {}
        self._over: set[str] = set()  # in this turn or the last
        self.any = False  # in this turn
        self.denied = False  # a call that is still open
        self.cancelled = False  # this turn

    # -- received from the agent --

    def told(self, update: Table, parent: str | None) -> Iterator[Event | AttachmentBytes]:
        """Handles `tool_call` and `tool_call_update`: absent members are unchanged."""
        call_id = text(update, "toolCallId")
        if call_id in self._over:
            return
        new = call_id not in self._open
        call = self._merge(call_id, update, parent)
        status = text(call.told, "status")
        ready = bool(call.input) or status not in ("pending", "") or not new
        before = call.title
        if not call.started and ready:
            yield self._start(call)
            before = call.title
        if not call.started:
            return
        call.receive(streamed := content.streamed(update))
        pieces = list(content.contents(update)) if "content" in update else []
        yield from (piece for piece in pieces if isinstance(piece, AttachmentBytes))
        given = tuple(piece for piece in pieces if not isinstance(piece, AttachmentBytes))
        if status in _FINAL:
            finished = self._finish(call, status, given)
            yield finished
            if finished.outcome == "completed" and (steps := tools.plan(call.input)):
                yield PlanChanged(steps=steps, parent=call.parent)
            return
        yield from self._progress(call, given or (call.received if streamed else ()), before)

    def asked(self, asked: Table, request_id: str, reason: str) -> Iterator[Event]:
        """Handles the `toolCall` of a permission request, possibly the first report of the call."""
        call_id = text(asked, "toolCallId")
        self._over.discard(call_id)
        known = self._open.get(call_id)
        whole = known is not None and known.started and bool(known.input)
        # The request may hold less than a started call: some agents put a diff in place of the
        # input. But if the request differs, its input applies, since that is what gets allowed.
        if whole and known and self._is_other(self._dialect.input(asked), known.input):
            whole = False
        patch = {k: v for k, v in asked.items() if k not in ("rawInput", "title") or not whole}
        call = self._merge(call_id, {**patch, "status": "pending"}, known.parent if known else None)
        if not call.started:
            yield self._start(call)
        started = self._started(call)
        messages = [piece for piece in content.contents(asked) if isinstance(piece, Text)]
        yield PermissionRequested(
            request_id=request_id,
            tool=started.tool,
            title=started.title,
            input=started.input,
            paths=started.paths,
            call_id=call_id or None,
            reason=reason or (messages[0].text if messages else ""),
            parent=call.parent,
        )

    def deny(self, call_id: str) -> None:
        if call := self._open.get(call_id):
            call.denied = self.denied = True

    def end_denied(self) -> Iterator[Event]:
        """Ends denied calls: the agent continues and reports nothing more about them."""
        self.denied = False
        for call in [call for call in self._open.values() if call.denied]:
            yield self._end(call, "denied", ())

    def begin(self) -> None:
        """Starts a turn."""
        self._over.clear()
        self.any = self.denied = self.cancelled = False

    def begun(self, call_id: str) -> bool:
        """Whether the input of the call is complete."""
        call = self._open.get(call_id)
        return call is not None and (
            call.started or text(call.told, "status") not in ("pending", "")
        )

    def knows(self, call_id: str) -> bool:
        return call_id in self._open or call_id in self._over

    def finish_all(self) -> Iterator[Event]:
        """Ends all open calls at the end of the turn."""
        for call in list(self._open.values()):
            if not call.started:
                yield self._start(call)
            yield self._end(call, "denied" if call.denied else "cancelled", ())

    # -- one call --

    def _merge(self, call_id: str, patch: Table, parent: str | None) -> AcpToolCall:
        call = self._open.get(call_id)
        if call is None:
            call = self._open[call_id] = AcpToolCall(call_id, parent)
            self.any = True
        call.told |= {key: value for key, value in patch.items() if value is not None}
        called = tools.server_tool(text(call.told, "title"), self._servers)
        call.name = call.name or called or self._dialect.tool_name(call.told)
        input = self._dialect.input(patch)
        if input.keys() - _HOLDS_NOTHING:
            call.input = input
        return call

    def _is_other(self, asked: Table, known: Table) -> bool:
        if any(known.get(key, asked[key]) != asked[key] for key in asked):
            return True
        return "command" in asked.keys() - known.keys() or bool(
            self._files(asked) - self._files(known)
        )

    def _files(self, input: Table) -> set[PurePosixPath]:
        return {PurePosixPath(self._cwd, path) for path in vocabulary.paths_of(input)}

    def _started(self, call: AcpToolCall) -> ToolStarted:
        reported, kind = text(call.told, "title"), text(call.told, "kind")
        name = tools.full_name(call.name, call.input, self._servers)
        tool = tools.vocabulary(name, kind, call.input, self._dialect.row)
        if tool == "Edit" and not name and tools.makes_a_file(call.told):
            tool = "Write"
        input = storable(tools.arguments(tool, call.told, call.input))
        beside = () if tool == "Bash" else tools.locations(call.told)  # the cwd is not an argument
        paths = tuple(dict.fromkeys(vocabulary.paths_of(input) + beside))
        title = reported or name or tool
        if tool in vocabulary.TOOLS and (tool in ("Bash", "MCP", "TodoWrite") or paths):
            shown = tools.shown(name) if name else reported
            title = vocabulary.title(
                tool,
                {"file_path": paths[0], **input} if paths else input,
                name=shown,
                cwd=self._cwd,
            )
        return ToolStarted(
            call_id=call.call_id,
            tool=tool,
            name=name or kind or reported or tool,
            title=title,
            input=input,
            paths=paths,
            parent=call.parent,
        )

    def _start(self, call: AcpToolCall) -> ToolStarted:
        call.started = True
        call.title = text(call.told, "title")
        return self._started(call)

    def _progress(
        self, call: AcpToolCall, given: tuple[Content, ...], before: str
    ) -> Iterator[ToolUpdated]:
        """Reports output, which is sent in full each time, when it has grown by a quarter."""
        size = sum(len(part.text) for part in given if isinstance(part, Text))
        diffs = any(isinstance(part, Diff) for part in given)
        if diffs and given != call.content:
            call.content = given
        elif size * 4 <= call.shown * 5 or not self._runs(call):
            given = ()
        title = text(call.told, "title")
        changed = title if title != before else None
        call.title = title
        if given or changed:
            call.shown = max(call.shown, size)
            yield ToolUpdated(
                call_id=call.call_id, title=changed, content=given, parent=call.parent
            )

    def _runs(self, call: AcpToolCall) -> bool:
        """Whether the call runs; before that its text describes what it would do."""
        return text(call.told, "status") != "pending" or "rawOutput" in call.told

    def _finish(self, call: AcpToolCall, status: str, given: tuple[Content, ...]) -> ToolFinished:
        outcome = self._outcome(call, status)
        raw = content.output(call.told.get("rawOutput"))
        texts = [part for part in given if isinstance(part, Text)]
        if len(texts) == len(given) == 1 and raw:
            plain = content.unfenced(texts[0].text)
            given = (Text(raw if plain.strip() == raw.strip() else plain),)
        if len(texts) == len(given) and (result := self._dialect.output(call.told)) is not None:
            given = (Text(result),) if result else ()
        if not given and outcome == "completed":
            given = call.content
        if not given:
            given = (Text(raw),) if raw else call.received
        return self._end(call, outcome, tuple(_placed(part, call) for part in given))

    def _outcome(self, call: AcpToolCall, status: str) -> Outcome:
        if call.denied:
            return "denied"
        if found := self._dialect.outcome(status, call.told):
            return found
        if status == "completed" and not content.exit_code(call.told.get("rawOutput")):
            return "completed"
        return "cancelled" if self.cancelled else "failed"

    def _end(self, call: AcpToolCall, outcome: Outcome, given: tuple[Content, ...]) -> ToolFinished:
        del self._open[call.call_id]
        self._over.add(call.call_id)
        return ToolFinished(
            call_id=call.call_id, outcome=outcome, content=given, parent=call.parent
        )


def _placed(part: Content, call: AcpToolCall) -> Content:
    """Completes the path of a diff, since some agents send only the file name."""
    if isinstance(part, Diff) and "/" not in part.path:
        for path in (*vocabulary.paths_of(call.input), *tools.locations(call.told)):
            if path.endswith(f"/{part.path}"):
                return replace(part, path=path)
    return part
