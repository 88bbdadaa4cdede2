"""ACP wire of Copilot: the common wire with Copilot's deviations.

- Its token counts accumulate over turns.
- Text and calls of a subagent look like the main agent's: while a task runs, they belong to it.
- Tools of an MCP server are named `SERVER-TOOL`.
- A retry of a model call is a message that begins with `Info: `; the reply starts again.
- A failure is a last message that begins with `Error: `, and the turn ends as completed.
- Its hook asks before every call (`hook_requests`), if there is a `plugin` with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec.structs import replace

from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.model_reply import ModelReply
from tillerman.agents.acp.wire import AcpWire
from tillerman.agents.copilot import failures
from tillerman.agents.copilot.hook_requests import CopilotHookRequests
from tillerman.agents.decoding.token_meter import TokenCounts, TokenMeter
from tillerman.core import tools
from tillerman.core.agent import Prompt, SecretFolder, SessionSpec
from tillerman.core.events import (
    Answer,
    Event,
    MessageChunk,
    Notice,
    PermissionRequested,
    PlanChanged,
    RequestAnswered,
    SettingsChanged,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    UsageReported,
)
from tillerman.core.wire import AttachmentBytes, Launch, WireReply
from tillerman.hooks.protocol import HookReply

Said = Event | WireReply | AttachmentBytes
C = TypeVar("C", ToolStarted, PermissionRequested)
W = TypeVar("W", bound=Event)

_ERROR = "Error: "
_GAVE_UP = "Error: Failed to get response from the AI model"  # possibly within a message
_PREAMBLE_ENDS = "</instructions>\n"


class CopilotWire(AcpWire):
    def __init__(self, dialect: AcpDialect, spec: SessionSpec) -> None:
        super().__init__(dialect, replace(spec, effort=None))  # it is set on the command line
        self._mcp = tuple(spec.tools.servers)
        self._tasks: list[str] = []  # calls with a running subagent
        self._paths: set[str] = set()  # files named by calls
        self._message = ""
        self._held: MessageChunk | None = None  # may be the reason of a failure
        self._totals = TokenMeter()
        self._planned = False
        self._reply = ModelReply()
        self._gate = CopilotHookRequests(lambda asked: self._inside(self._named(asked, asked.tool)))
        self.plugin: Mapping[str, bytes] = {}

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        launch = super().launch(spec, prompt)
        if not self.plugin:
            return launch
        return replace(launch, argv=[*launch.argv, SecretFolder("--plugin-dir=", self.plugin)])

    # -- hook requests --

    def hooked(self, ask: str, payload: bytes) -> PermissionRequested | HookReply:
        return self._gate.asked(ask, payload)

    def rule(self, ask: str, answer: Answer) -> HookReply | None:
        """The reply to the hook; None if the request came over ACP."""
        return self._gate.answer(ask, answer)

    def gone(self, ask: str) -> list[Event]:
        """Withdraws a request whose hook no longer waits."""
        if not self._gate.gone(ask):
            return []
        return [RequestAnswered(request_id=ask, answer=Answer("deny"), by="withdrawn")]

    # -- decoding --

    def decode(self, line: bytes) -> Iterable[Said]:
        messages = [reported for one in super().decode(line) for reported in self._read(one)]
        return [reported for one in messages for reported in self._with_withdrawn(one)]

    def _with_withdrawn(self, one: Said) -> Iterator[Said]:
        if not isinstance(one, WireReply | AttachmentBytes) and one.parent is None:
            yield from self._reply.receive(one)
        yield one

    def _read(self, one: Said) -> Iterator[Said]:
        match one:
            case UsageReported(call=None):
                yield self._since(one)
            case UsageReported():
                yield self._inside(one)
            case TurnEnded():
                yield self._ending(one)
            case Notice():
                yield from self._notice_or_retry(one)
            case SettingsChanged(title=str(title)) if _PREAMBLE_ENDS in title:
                yield replace(one, title=title.partition(_PREAMBLE_ENDS)[2])
            case PlanChanged(steps=steps):
                if steps or self._planned:
                    self._planned = True
                    yield one
            case MessageChunk() if self._begins_with_error(one):
                self._held = one
            case MessageChunk() | ThoughtChunk() | ToolStarted() | ToolUpdated() | ToolFinished():
                yield from self._release()
                yield from self._work(one)
            case PermissionRequested() if self._gate.allows(one):
                yield from map(WireReply, self.answer(one.request_id, Answer("allow")))
            case PermissionRequested():
                yield self._inside(self._named(one, one.tool))
            case _:
                yield one

    # -- messages and calls --

    def _work(
        self, one: MessageChunk | ThoughtChunk | ToolStarted | ToolUpdated | ToolFinished
    ) -> Iterator[Event]:
        match one:
            case ToolStarted():
                self._paths |= set(one.paths)
                named = self._inside(self._named(one, one.name))
                self._gate.started(named)
                yield named
                if one.tool == "Task":
                    self._tasks.append(one.call_id)
            case ToolFinished():
                if one.call_id in self._tasks:
                    self._tasks.remove(one.call_id)
                self._gate.finished(one.call_id)
                yield self._inside(one)
            case _:
                yield self._inside(one)

    def _inside(self, event: W) -> W:
        """Sets the parent to the last started task, unless the event is about that task."""
        call_id = getattr(event, "call_id", None)
        inner = [task for task in self._tasks if task != call_id]
        return replace(event, parent=inner[-1]) if inner else event

    def _named(self, event: C, name: str) -> C:
        for server in self._mcp:
            if (tool := name.removeprefix(f"{server}-")) != name:
                title = tools.title("MCP", event.input, name=f"{server}.{tool}")
                return replace(event, tool="MCP", title=title)
        return event

    # -- errors and notices --

    def _begins_with_error(self, chunk: MessageChunk) -> bool:
        new = chunk.message_id != self._message
        self._message = chunk.message_id
        return chunk.text.startswith(_ERROR if new else _GAVE_UP) and not self._tasks

    def _release(self) -> Iterator[Event]:
        if self._held:
            yield self._held
            self._held = None

    def _ending(self, end: TurnEnded) -> TurnEnded:
        held, self._held = self._held, None
        self._tasks.clear()
        self._paths.clear()
        self._gate.end()
        if held is None or end.reason != "completed":
            return end
        why = failures.failure_of(held.text.removeprefix(_ERROR))
        return TurnEnded(reason="failed", failure=why)

    def _notice_or_retry(self, notice: Notice) -> Iterator[Notice]:
        """Emits a notice or retry; `Info: ` with the path of a written file repeats the call."""
        message = notice.text.removeprefix("Info: ")
        if message.endswith("Retrying...") or "and retrying" in message:
            self._reply.asked_again()
            self._speech.rest()
            yield replace(notice, kind="retry", level="warning", text=message)
        elif message not in self._paths:
            yield replace(notice, text=message)

    # -- usage --

    def _since(self, total: UsageReported) -> UsageReported:
        """Subtracts the last total."""
        counts = TokenCounts(total.input_tokens, total.output_tokens, total.cached_tokens)
        since = self._totals.since_total(counts)
        return replace(
            total,
            input_tokens=since.input,
            output_tokens=since.output,
            cached_tokens=since.cached,
        )
