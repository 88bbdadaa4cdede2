"""Defines all session events as frozen structs, with their JSON encoding and decoding."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tillerman.core.failure import Failure

# -- parts ---------------------------------------------------------------------------------------


class _Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value inside an event."""


class Cut(_Part, frozen=True):
    """The part omitted from a truncated text, and the file that holds the full text."""

    left_out: int  # bytes
    spill: str | None = None  # file name under the session's spill folder


class Text(_Part, frozen=True, tag="text"):
    text: str
    cut: Cut | None = None


class Diff(_Part, frozen=True, tag="diff"):
    """The change of one file: a unified diff if the agent provides one, else old and new text."""

    path: str
    patch: str | None = None
    old: str | None = None
    new: str | None = None


class Image(_Part, frozen=True, tag="image"):
    mime: str
    hash: str  # sha256 of the bytes, which are in the store's attachments


Content = Text | Diff | Image


class PlanStep(_Part, frozen=True):
    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class BackgroundTask(_Part, frozen=True):
    """Work that the agent left running: the session is not idle while a task is open."""

    task_id: str
    title: str = ""
    call_id: str | None = None


class FileChange(_Part, frozen=True):
    path: str
    change: Literal["added", "modified", "deleted", "renamed"]
    added: int | None = None  # lines; None when not text
    removed: int | None = None
    old_path: str | None = None


class Option(_Part, frozen=True):
    """One of the possible answers to a permission request."""

    id: str
    label: str
    kind: Literal["allow", "always", "deny"]


ALLOW = Option("allow", "Allow", "allow")
DENY = Option("deny", "Deny", "deny")


class Choice(_Part, frozen=True):
    label: str
    description: str = ""


class Question(_Part, frozen=True):
    text: str
    header: str = ""
    choices: tuple[Choice, ...] = ()
    many: bool = False


class Answer(_Part, frozen=True):
    """The answer to a request: the id of the chosen option and its parameters."""

    option: str  # Option.id; "allow" or "deny" where the agent offers no others
    note: str | None = None  # sent to the agent with a denial
    input: dict[str, Any] | None = None  # changed input, with an approval
    answers: dict[str, str] | None = None  # question text -> chosen label(s) or free text
    remember: Literal["session", "project"] | None = None  # store as a rule for similar requests


class Attachment(_Part, frozen=True):
    name: str
    mime: str
    hash: str  # sha256; the bytes are in the store
    size: int


class Enforced(_Part, frozen=True):
    """How a restriction is enforced: by the kernel, by restoring changes, or not at all."""

    what: Literal["protected names", "denied paths", "denied commands"]
    state: Literal["enforced", "restored", "advisory"]
    why: str = ""
    paths: tuple[str, ...] = ()  # or patterns; empty: everything that no other row names


# -- events --------------------------------------------------------------------------------------


def _tag(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=_tag):
    parent: str | None = None  # the tool call in which a subagent runs


class AgentStarted(_Event, frozen=True):
    """The agent's process has started, with its supervision level and enforced restrictions."""

    agent: str
    version: str | None = None
    supervision: str | None = None
    enforcement: tuple[Enforced, ...] = ()


class AgentReady(_Event, frozen=True):
    """The agent has reported its native session id, which resumes the session."""

    native_id: str
    model: str | None = None
    version: str | None = None  # the agent's version, if it reports one


class AgentExited(_Event, frozen=True):
    """The agent's process has ended. Everything that it left open is ended right after."""

    code: int | None = None
    signal: int | None = None
    detail: str = ""  # tail of stderr


class TurnStarted(_Event, frozen=True):
    origin: Literal["prompt", "agent"]
    prompt: str | None = None
    attachments: tuple[Attachment, ...] = ()


class TurnEnded(_Event, frozen=True):
    reason: Literal["completed", "failed", "cancelled"]
    failure: Failure | None = None
    result: Any = None  # structured output, when a schema was requested


class UserMessage(_Event, frozen=True):
    """Text sent to the agent that is not a turn's prompt; tillerman writes that of a handoff."""

    text: str
    how: Literal["steer", "queued", "imported", "shell", "handoff", "repair"]


class MessageChunk(_Event, frozen=True):
    message_id: str
    text: str


class ThoughtChunk(_Event, frozen=True):
    message_id: str
    text: str


class MessageWithdrawn(_Event, frozen=True):
    """The chunks of this message are void: the agent starts the message again."""

    message_id: str


class PlanChanged(_Event, frozen=True):
    steps: tuple[PlanStep, ...]  # the complete plan each time


class ToolStarted(_Event, frozen=True):
    call_id: str
    tool: str  # the same names for all agents
    name: str  # the agent's native tool name
    title: str
    input: dict[str, Any] = msgspec.field(default_factory=dict)
    paths: tuple[str, ...] = ()


class ToolUpdated(_Event, frozen=True):
    call_id: str
    title: str | None = None
    content: tuple[Content, ...] = ()


class ToolFinished(_Event, frozen=True):
    call_id: str
    outcome: Literal["completed", "failed", "denied", "cancelled"]
    content: tuple[Content, ...] = ()


class BackgroundChanged(_Event, frozen=True):
    tasks: tuple[BackgroundTask, ...]  # all running tasks; empty: none


class PermissionRequested(_Event, frozen=True):
    request_id: str
    tool: str  # the same names for all agents
    title: str
    input: dict[str, Any] = msgspec.field(default_factory=dict)  # the agent's keys; see below
    paths: tuple[str, ...] = ()  # the files that it names, as the agent gives them
    call_id: str | None = None
    options: tuple[Option, ...] = (ALLOW, DENY)
    reason: str = ""  # why the agent asks, in its own text
    changeable: bool = True  # can be approved with changed input


class QuestionAsked(_Event, frozen=True):
    request_id: str
    questions: tuple[Question, ...]
    call_id: str | None = None


class RequestAnswered(_Event, frozen=True):
    request_id: str
    answer: Answer
    by: Literal["policy", "person", "timeout", "withdrawn"]
    surface: str | None = None  # the surface where the person answered, or the rule that decided
    waits: bool = False  # the session was not running: used once, for the next request like it


class UsageReported(_Event, frozen=True):
    """Usage since the last report; the reports of a turn add up to the turn's usage.

    A report about a single model call sets `call`: `begun` gives only the context that the call
    reads, its tokens come in a later report; `done` gives what the call used.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    priced: str | None = None  # agent reported no cost: date of the prices used to compute it
    context_used: int | None = None
    context_limit: int | None = None
    call: Literal["begun", "done"] | None = None  # None: several calls, or not reported


class SettingsChanged(_Event, frozen=True):
    model: str | None = None
    mode: str | None = None
    commands: tuple[str, ...] | None = None
    title: str | None = None
    approve: str | None = None  # the preset that decides requests
    forgotten: str | None = None  # a remembered rule that was removed, as text for people


class FilesChanged(_Event, frozen=True):
    """The files that changed on disk during the turn, by any process."""

    files: tuple[FileChange, ...]
    left_out: int = 0


class Notice(_Event, frozen=True):
    level: Literal["info", "warning", "error"]
    kind: Literal[
        "retry", "fallback", "truncated", "compaction", "stray", "storage", "settings", "limit",
        "subagent", "session", "files", "version", "handoff", "policy",
    ]  # fmt: skip
    text: str
    failure: Failure | None = None  # of a retry: the failure that caused it


class Unrecognized(_Event, frozen=True):
    """A line that could not be decoded; stored, so that newer agents do not break the log."""

    raw: str
    why: str = ""
    length: int | None = None  # of the whole line, when `raw` is only its beginning
    sha256: str | None = None
    spill: str | None = None


Event = (
    AgentStarted | AgentReady | AgentExited | TurnStarted | TurnEnded | UserMessage
    | MessageChunk | ThoughtChunk | MessageWithdrawn | PlanChanged
    | ToolStarted | ToolUpdated | ToolFinished | BackgroundChanged
    | PermissionRequested | QuestionAsked | RequestAnswered
    | UsageReported | SettingsChanged | FilesChanged | Notice | Unrecognized
)  # fmt: skip


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its position in a session's log."""

    session: str
    seq: int  # from 1, no gaps
    turn: int  # 0 before the first turn
    at: str  # UTC, RFC 3339
    event: Event


# -- encoding ------------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()
_event_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_entry_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)

encode = _encoder.encode


def decode_event(data: bytes | str) -> Event:
    """Decodes an event; a tag or shape unknown to this version becomes `Unrecognized`."""
    try:
        return _event_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raw = data if isinstance(data, str) else data.decode("utf-8", "replace")
        return Unrecognized(raw=raw, why=f"stored by another version: {error}")


def decode_entry(data: bytes | str) -> Entry:
    return _entry_decoder.decode(data)
