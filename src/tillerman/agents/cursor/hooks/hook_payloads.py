"""Typed payloads and replies of all 21 Cursor hook events."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from tillerman.core.json_fields import Table
from tillerman.hooks.dialects.payload_codec import HookEvent

# -- payloads --------------------------------------------------------------------------------------


class ModelParameter(Struct, frozen=True):
    id: str = ""
    value: str = ""


class CursorAttachment(Struct, frozen=True):
    type: str = ""
    file_path: str = ""


class CursorEdit(Struct, frozen=True):
    old_string: str = ""
    new_string: str = ""
    range: Table | None = None  # only for the editor's own completion, as are the lines
    old_line: str | None = None
    new_line: str | None = None


class CursorEvent(HookEvent, frozen=True, kw_only=True):
    cursor_version: str = ""
    workspace_roots: tuple[str, ...] = ()
    user_email: str | None = None
    conversation_id: str = ""
    generation_id: str = ""
    session_id: str = ""
    model: str = ""
    model_id: str = ""
    model_params: tuple[ModelParameter, ...] = ()
    transcript_path: str | None = None

    @property
    def alone(self) -> bool:
        """Whether it was run by `-p`, where the user cannot be asked."""
        same = bool(self.conversation_id) and self.conversation_id == self.generation_id
        return same and self.transcript_path is None


class CursorSessionStart(CursorEvent, frozen=True, kw_only=True):
    is_background_agent: bool = False
    composer_mode: str = ""


class CursorSessionEnd(CursorEvent, frozen=True, kw_only=True):
    reason: str = ""  # completed aborted error window_close user_close
    duration_ms: float = 0
    is_background_agent: bool = False
    final_status: str = ""
    error_message: str | None = None


class BeforeSubmitPrompt(CursorEvent, frozen=True, kw_only=True):
    prompt: str
    attachments: tuple[CursorAttachment, ...] = ()


class PreToolUse(CursorEvent, frozen=True, kw_only=True):
    """An edit causes two of these with the same id: `Read`, then `Write`."""

    tool_name: str
    tool_input: Table
    tool_use_id: str = ""
    cwd: str = ""
    agent_message: str | None = None


class PostToolUse(CursorEvent, frozen=True, kw_only=True):
    tool_name: str
    tool_input: Table = field(default_factory=dict)
    tool_output: str = ""  # JSON
    tool_use_id: str = ""
    cwd: str = ""
    duration: float = 0


class PostToolUseFailure(CursorEvent, frozen=True, kw_only=True):
    tool_name: str
    tool_input: Table = field(default_factory=dict)
    tool_use_id: str = ""
    cwd: str = ""
    error_message: str = ""
    failure_type: str = ""  # error timeout permission_denied
    duration: float = 0
    is_interrupt: bool = False


class BeforeShellExecution(CursorEvent, frozen=True, kw_only=True):
    command: str
    cwd: str = ""
    sandbox: bool | None = None


class AfterShellExecution(CursorEvent, frozen=True, kw_only=True):
    command: str
    output: str = ""
    duration: float = 0
    sandbox: bool | None = None


class BeforeMCPExecution(CursorEvent, frozen=True, kw_only=True):
    """The server is identified by its address: `url`, or the `command` that starts it."""

    tool_name: str
    tool_input: str  # JSON
    url: str = ""
    command: str = ""


class AfterMCPExecution(CursorEvent, frozen=True, kw_only=True):
    tool_name: str
    tool_input: str = ""
    result_json: str = ""
    duration: float = 0


class BeforeReadFile(CursorEvent, frozen=True, kw_only=True):
    file_path: str
    content: str = ""
    attachments: tuple[CursorAttachment, ...] = ()


class AfterFileEdit(CursorEvent, frozen=True, kw_only=True):
    file_path: str
    edits: tuple[CursorEdit, ...] = ()


class CursorSubagentStart(CursorEvent, frozen=True, kw_only=True):
    subagent_type: str
    task: str
    subagent_id: str = ""
    parent_conversation_id: str = ""
    tool_call_id: str = ""
    subagent_model: str = ""
    is_parallel_worker: bool = False
    git_branch: str | None = None


class CursorSubagentStop(CursorEvent, frozen=True, kw_only=True):
    subagent_type: str = ""
    status: str = ""
    task: str = ""
    description: str = ""
    summary: str = ""
    duration_ms: float = 0
    message_count: int = 0
    tool_call_count: int = 0
    loop_count: int = 0
    modified_files: tuple[str, ...] = ()
    agent_transcript_path: str | None = None


class PreCompact(CursorEvent, frozen=True, kw_only=True):
    trigger: str = ""
    context_usage_percent: float = 0
    context_tokens: int = 0
    context_window_size: int = 0
    message_count: int = 0
    messages_to_compact: int = 0
    is_first_compaction: bool = False


class Stop(CursorEvent, frozen=True, kw_only=True):
    status: str = ""  # completed aborted error
    loop_count: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class AfterAgentResponse(CursorEvent, frozen=True, kw_only=True):
    text: str


class AfterAgentThought(CursorEvent, frozen=True, kw_only=True):
    text: str
    duration_ms: float = 0


class BeforeTabFileRead(CursorEvent, frozen=True, kw_only=True):
    file_path: str
    content: str = ""


class AfterTabFileEdit(CursorEvent, frozen=True, kw_only=True):
    file_path: str
    edits: tuple[CursorEdit, ...] = ()


class WorkspaceOpen(CursorEvent, frozen=True, kw_only=True):
    pass


# -- replies ---------------------------------------------------------------------------------------


class _Reply(Struct, frozen=True, omit_defaults=True, kw_only=True):
    pass


class PermissionReply(_Reply, frozen=True, omit_defaults=True, kw_only=True):
    """`ask` is valid only for commands and MCP calls, `updated_input` before any tool."""

    permission: Literal["allow", "deny", "ask"]
    user_message: str | None = None
    agent_message: str | None = None
    updated_input: Table | None = None
    go_on: bool | None = field(default=None, name="continue")


class SessionStartReply(_Reply, frozen=True, omit_defaults=True, kw_only=True):
    env: dict[str, str] = field(default_factory=dict)
    additional_context: str | None = None


class PromptReply(_Reply, frozen=True, omit_defaults=True, kw_only=True):
    go_on: bool = field(name="continue")
    user_message: str | None = None


class PostToolReply(_Reply, frozen=True, omit_defaults=True, kw_only=True):
    additional_context: str | None = None
    updated_mcp_tool_output: Any = None


class StopReply(_Reply, frozen=True, omit_defaults=True, kw_only=True):
    followup_message: str | None = None


class MessageReply(_Reply, frozen=True, omit_defaults=True, kw_only=True):
    user_message: str | None = None


class PluginsReply(_Reply, frozen=True, omit_defaults=True, kw_only=True):
    paths: tuple[str, ...] = field(default=(), name="pluginPaths")


class EmptyReply(_Reply, frozen=True, omit_defaults=True, kw_only=True):
    pass


Reply = (
    PermissionReply
    | SessionStartReply
    | PromptReply
    | PostToolReply
    | StopReply
    | MessageReply
    | PluginsReply
    | EmptyReply
)
