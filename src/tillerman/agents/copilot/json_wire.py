"""Decodes `copilot --output-format json`: one process per turn that streams and cannot ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tillerman.agents.copilot import failures
from tillerman.agents.copilot.dialect import ENV, words
from tillerman.agents.copilot.tools import CopilotToolCall, attachments, call_of, content, outcome
from tillerman.agents.decoding.fields import Table, count, parse, table, text
from tillerman.agents.decoding.inline_attachments import in_words
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.agents.stdio.one_way_wire import OneWayWire
from tillerman.core.agent import Prompt, SessionSpec, Word
from tillerman.core.events import (
    AgentReady,
    Event,
    MessageChunk,
    Notice,
    SettingsChanged,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolUpdated,
    TurnEnded,
)
from tillerman.core.wire import AttachmentBytes, Launch, WireReply

Said = Iterator[Event | AttachmentBytes]

# Steps within a turn, loaded resources, duplicates of other lines, and housekeeping.
QUIET = frozenset(
    {
        "user.message", "system.message", "agent.interrupted", "assistant.turn_start",
        "assistant.turn_end",
        "assistant.idle", "assistant.intent", "assistant.message_start", "assistant.usage",
        "assistant.tool_call_delta", "assistant.streaming_delta", "model.call_start",
        "model.call_finished", "model.call_final_result", "tool.shell_output",
        "tool.execution_progress", "tool_search.activated", "prompt_cache_break",
        "pending_messages.modified", "commands.changed", "capabilities.changed",
        "command.queued", "command.execute", "command.completed",
        "hook.start", "hook.progress", "hook.end", "skill.invoked", "skill.invoked_ref",
        "skill.context_delivered", "skill.context_delivered_ref", "sandbox.decision",
        "permission.requested", "permission.completed", "permission.carriedForward",
        "mcp.tools.list_changed", "mcp.resources.list_changed", "mcp.prompts.list_changed",
        "subagent.configured", "subagent.selected", "subagent.deselected", "subagent.completed",
        "session.start", "session.resume", "session.idle", "session.shutdown",
        "session.skills_loaded", "session.extensions_loaded", "session.custom_agents_updated",
        "session.tools_updated", "session.mcp_servers_loaded", "session.mcp_server_removed",
        "session.mcp_server_status_changed", "session.mcp_server_tools_loaded",
        "session.mcp_server_needs_reconnect", "session.background_tasks_changed",
        "session.todos_changed", "session.plan_changed", "session.mode_changed",
        "session.memory_changed", "session.workspace_file_changed", "session.binary_asset",
        "session.usage_info", "session.usage_checkpoint", "session.usage_record",
        "session.quota_observation", "session.context_changed", "session.permissions_changed",
        "session.indexed_search", "session.task_complete", "session.completion_receipt",
        "session.managed_settings_resolved", "session.request_body_compression_disabled",
        "session.session_limits_changed", "session.auto_mode_resolved",
    }
)  # fmt: skip
_TOLD_ELSEWHERE = frozenset({"file_created", "file_changed", "model_retry"})


class CopilotJsonWire(OneWayWire):
    """The session id comes with the last line, so an interrupted turn cannot be resumed."""

    def __init__(self, spec: SessionSpec) -> None:
        self._cwd = str(spec.cwd)
        self._begin()

    def _begin(self) -> None:
        self._calls: dict[str, CopilotToolCall] = {}
        self._shown: dict[str, str] = {}
        self._streamed: set[str] = set()  # messages and thoughts received in chunks
        self._agents: dict[str, str] = {}  # subagent -> its parent call
        self._last_error = ""  # error of the last model call
        self._end: TurnEnded | None = None
        self._over = False

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        self._begin()
        argv: list[Word] = ["copilot", "--output-format=json", "--stream=on"]
        if spec.mode == "plan":
            argv.append("--mode=plan")
        if spec.resume:
            argv.append(f"--resume={spec.resume}")
        argv += words(spec)
        if spec.mode == "ask":
            argv += ["--deny-tool=shell", "--deny-tool=write"]
        message = _prompt(spec, prompt) if prompt else ""
        return Launch(argv, env=ENV, stdin=message.encode())

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]:
        return list(self._line(line))

    def _line(self, raw: bytes) -> Said:
        line = parse(raw)
        if isinstance(line, str):
            yield unrecognized(raw, line)
            return
        kind, data = text(line, "type"), table(line, "data")
        if kind in QUIET:
            return
        parent = self._parent(line, data)
        match kind:
            case "assistant.message_delta" | "assistant.message":
                yield from self._speech(MessageChunk, data, "messageId", parent)
            case "assistant.reasoning_delta" | "assistant.reasoning":
                yield from self._speech(ThoughtChunk, data, "reasoningId", parent)
            case "tool.execution_start" if text(data, "toolCallId"):
                call = call_of(data, parent)
                self._calls[call.call_id] = call
                yield call.started(self._cwd)
            case "tool.execution_partial_result":
                yield from self._progress(data, parent)
            case "tool.execution_complete" if text(data, "toolCallId"):
                yield from self._finished(data, parent)
            case "subagent.started":
                self._agents[text(line, "agentId")] = text(data, "toolCallId")
            case "subagent.failed":
                message = text(data, "error") or "the subagent failed"
                yield Notice(level="error", kind="subagent", text=message, parent=parent)
            case "result":
                yield from self._result(line)
            case _:
                yield from self._session_line(kind, data, raw)

    def _session_line(self, kind: str, data: Table, raw: bytes) -> Said:
        """Handles lines about the session, not about a message or a call."""
        match kind:
            case "model.call_failure":
                status = count(data, "statusCode")
                message = parse(text(data, "errorMessage").encode())
                why = text(message, "message") if isinstance(message, dict) else ""
                self._last_error = f"{status or ''} {why or text(data, 'errorMessage')}".strip()
            case "assistant.turn_retry":
                message = self._last_error or text(data, "reason")
                yield Notice(
                    level="warning", kind="retry", text=f"retrying the model call: {message}"
                )
            case "session.info":
                if text(data, "infoType") not in _TOLD_ELSEWHERE:
                    yield Notice(level="info", kind="session", text=text(data, "message"))
            case "session.warning":
                yield Notice(level="warning", kind="session", text=text(data, "message"))
            case "session.compaction_start":
                yield Notice(level="info", kind="compaction", text="the conversation is compacted")
            case "session.compaction_complete" | "session.truncation":
                pass
            case "session.title_changed":
                yield SettingsChanged(title=text(data, "title"))
            case "session.model_change":
                yield SettingsChanged(model=text(data, "newModel"))
            case "session.error":
                self._end = TurnEnded(reason="failed", failure=failures.failure(data))
            case "abort":
                self._end = TurnEnded(reason="cancelled")
            case _:
                yield unrecognized(raw, f"a line of type {kind!r}")

    def _parent(self, line: Table, data: Table) -> str | None:
        return text(data, "parentToolCallId") or self._agents.get(text(line, "agentId"))

    def _speech(
        self, chunk: type[MessageChunk | ThoughtChunk], data: Table, key: str, parent: str | None
    ) -> Iterator[Event]:
        """Emits text, which comes in chunks and then again as a whole."""
        id = text(data, key)
        if "deltaContent" in data:
            self._streamed.add(id)
            message = text(data, "deltaContent")
        else:
            message = "" if id in self._streamed else text(data, "content")
        if message:
            yield chunk(message_id=id, text=message, parent=parent)

    def _progress(self, data: Table, parent: str | None) -> Iterator[Event]:
        """Reports output, which is sent in full each time and repeated."""
        call_id, output = text(data, "toolCallId"), text(data, "partialOutput")
        if call_id in self._calls and output != self._shown.get(call_id, ""):
            self._shown[call_id] = output
            yield ToolUpdated(call_id=call_id, content=(Text(output),), parent=parent)

    def _finished(self, data: Table, parent: str | None) -> Said:
        call_id = text(data, "toolCallId")
        call = self._calls.pop(call_id, None)
        self._shown.pop(call_id, None)
        yield from attachments(data)
        yield ToolFinished(
            call_id=call_id,
            outcome=outcome(data),
            content=content(call, data),
            parent=call.parent if call else parent,
        )

    def _result(self, line: Table) -> Iterator[Event]:
        if self._over:
            return
        self._over = True
        for call in self._calls.values():
            yield ToolFinished(call_id=call.call_id, outcome="cancelled", parent=call.parent)
        if session := text(line, "sessionId"):
            yield AgentReady(native_id=session)
        if self._end is None and line.get("exitCode") != 0:
            why = failures.failure_of(self._last_error or "it gave no reason")
            self._end = TurnEnded(reason="failed", failure=why)
        yield self._end or TurnEnded(reason="completed")


def _prompt(spec: SessionSpec, prompt: Prompt) -> str:
    parts = []
    if spec.system and not spec.resume:
        parts.append(f"<instructions>\n{spec.system}\n</instructions>\n")
    where = " on its `json` surface"
    hint = "remove `surface` from [agents.copilot]: over ACP it accepts images"
    parts += [in_words("copilot", file, where=where, hint=hint) + "\n" for file in prompt.files]
    return "".join(parts) + prompt.text
