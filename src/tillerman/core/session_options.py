"""Session options: allowed values of each, validated the same way for every interface.

An unknown value of an option that restricts an agent must never mean "no restriction".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from msgspec import MsgspecError, Struct, convert, to_builtins
from msgspec.structs import replace

from tillerman.core.agent import File, Mode, Prompt, SessionSpec
from tillerman.core.errors import UsageError

if TYPE_CHECKING:
    from tillerman.core.events import Answer
    from tillerman.core.program.callbacks import (
        AfterCall,
        AfterTurn,
        BeforeCall,
        BeforePrompt,
        OnPermission,
        OnQuestion,
    )
    from tillerman.core.program.python_tools import ToolServer

Preset = Literal["ask", "edits", "auto", "readonly", "none"]
Isolation = Literal["high", "medium", "basic"]  # strictest first
Supervision = Literal["auto", "namespace", "cgroup", "subreaper", "group"]
WhenBusy = Literal["queue", "refuse", "steer"]  # what happens to a prompt during a turn
Remember = Literal["session", "project"]  # where an answer is stored as a rule
Handoff = Literal["never", "limits", "always"]
RateLimit = Literal["switch", "wait"]
Enforced = Literal["on", "auto", "off"]  # strictest first
Protected = Literal["mounts", "auto", "watch"]  # strictest first


class CallbackOptions(TypedDict, total=False):
    """The callbacks of a session: see `tillerman.core.program.callbacks`."""

    on_permission: OnPermission | None  # answers what no rule decides; None: a person answers
    on_question: OnQuestion | None  # answers the agent's questions
    before_call: BeforeCall | None  # sees what the policy does not deny; may answer it or change it
    after_call: AfterCall | None  # sees each finished call
    before_prompt: BeforePrompt | None  # returns the text to send instead
    after_turn: AfterTurn | None  # returns a prompt to continue with


class ResumeOptions(CallbackOptions, total=False):
    """The options for resuming a session. None means: not given."""

    approve: Preset | None  # what runs without asking; default: that of the config
    accept_advisory: bool | None  # run an agent that does not ask before every call
    mode: Mode | None  # plan and ask change nothing
    model: str | None
    effort: str | None  # reasoning effort, in the agent's own words
    system: str | None  # added to the agent's system prompt
    env: Sequence[str]  # NAME or NAME=VALUE: more variables for the agent
    folders: Sequence[Path]  # more folders that the agent may work in
    servers: Mapping[str, Mapping[str, Any] | ToolServer]  # MCP servers by name
    allowed_tools: Sequence[str]  # in the agent's own list of allowed tools
    denied_tools: Sequence[str]  # in the agent's own list of denied tools
    tools: Sequence[str]  # the only tools that the agent may use
    output: type | None  # of the answer: msgspec.Struct, dataclass, TypedDict, pydantic model
    output_schema: Mapping[str, Any] | None  # JSON Schema of the answer
    repair_output: bool | None  # ask once more for an answer that does not match
    flags: Sequence[str]  # more arguments for the agent's program
    options: Mapping[str, Any]  # more keys of [agents.NAME] in the config
    max_turns: int | None  # model calls per prompt
    max_cost: float | None  # US dollars per prompt
    max_tokens: int | None  # tokens per prompt
    accept_unpriced: bool  # continue if max_cost cannot be enforced
    timeout: float | None  # seconds per prompt
    request_timeout: float | None  # seconds until an unanswered request is denied
    unattended: bool  # no person watches: requests wait for 5 minutes by default
    workspace_tools: bool | None  # offer tillerman's file and process tools


class StartOptions(ResumeOptions, total=False):
    cwd: Path | str  # the workspace; default: that of the harness


class ServeOptions(TypedDict, total=False):
    approve: Preset | None
    isolation: Isolation | None
    request_timeout: float | None
    env: Sequence[str]


class _Values(Struct, frozen=True):
    expected: str
    include: Callable[[object], bool]
    choices: tuple[str, ...] = ()
    hint: str = "omit it for its default"


def check_options(given: Mapping[str, object]) -> None:
    """Raises `UsageError` for the first option that is unknown or has an invalid value."""
    for name, value in given.items():
        values = OPTIONS.get(name)
        if values is None:
            raise _unknown(name, tuple(OPTIONS))
        if value is not None and not values.include(value):
            raise UsageError(
                f"{name} cannot be {value!r}: expected {values.expected}",
                hint=_near(value, values.choices) or values.hint,
            )


def given_options(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call that are not None; raises `UsageError` like `check_options`.

    `kind`: the TypedDict of the call's options.
    """
    known = tuple(kind.__annotations__)
    for name in options:
        if name not in known:
            raise _unknown(name, known)
    check_options(options)
    return {name: value for name, value in options.items() if value is not None}


def _unknown(name: str, known: Sequence[str]) -> UsageError:
    here = _SDK_NAMES.get(name, "")
    hint = f"claude-agent-sdk's {name} is {here} here" if here else _near(name, known)
    return UsageError(f"unknown option: {name!r}", hint=hint)


def check_required(**given: object) -> None:
    """Like `check_options`, but None is not allowed."""
    check_options(given)
    for name, value in given.items():
        if value is None:
            raise UsageError(
                f"{name} cannot be None: expected {OPTIONS[name].expected}", hint=OPTIONS[name].hint
            )


def as_prompt(text: str, files: Sequence[File] = ()) -> Prompt:
    """Raises `UsageError` for anything but files and text that can be sent and stored."""
    if not isinstance(text, str):
        raise UsageError(
            f"a prompt cannot be {text!r}: expected a string",
            hint="files are given as `files`, or by their path in the text",
        )
    if not _are(File)(files) or not all(map(_is_file, files)):
        raise UsageError(
            "files must be a list of `tillerman.File`",
            hint='File("notes.txt", "text/plain", data), with data as bytes',
        )
    for name, one in (("the prompt", text), *(("the name of a file", f.name) for f in files)):
        try:
            one.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{name} is not Unicode text at character {error.start}",
                hint="encode it as UTF-8",
            ) from None
    if not text.strip() and not files:
        raise UsageError("the prompt is empty", hint="write what the agent should do")
    return Prompt(text, tuple(files))


def _is_file(file: File) -> bool:
    texts = isinstance(file.name, str) and isinstance(file.mime, str)
    return texts and isinstance(file.data, bytes)


def check_answer(answer: Answer) -> None:
    """Raises `UsageError` unless it is an `Answer` with values of the right types."""
    from tillerman.core.events import Answer

    hint = "Answer(option, note=…)"
    if not isinstance(answer, Answer):
        raise UsageError(f"invalid answer: {answer!r} is not an Answer", hint=hint)
    check_options({"remember": answer.remember})
    try:
        convert(to_builtins(answer), Answer)
    except (MsgspecError, TypeError) as error:
        raise UsageError(f"invalid answer: {error}", hint=hint) from None


def _near(word: object, known: Sequence[str]) -> str:
    if not known:
        return ""
    from difflib import get_close_matches

    near = get_close_matches(word.strip().lower(), known, n=2) if isinstance(word, str) else []
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"


def _choice(words: object) -> _Values:
    known: tuple[str, ...] = get_args(words)
    return _Values(
        f"one of {', '.join(known)}", lambda value: isinstance(value, str) and value in known, known
    )


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) and value > 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_server(value: object) -> bool:
    if _is_table(value):
        return True
    from tillerman.core.program.python_tools import ToolServer  # lazy: few programs have any

    return isinstance(value, ToolServer)


def _are(kind: type | tuple[type, ...]) -> Callable[[object], bool]:
    def include(value: object) -> bool:
        return isinstance(value, list | tuple) and all(isinstance(one, kind) for one in value)

    return include


def _name(hint: str = "omit it for its default") -> _Values:
    return _Values(
        "a non-empty string", lambda value: isinstance(value, str) and value != "", hint=hint
    )


_NAME = _name()
_TEXT = _Values("a string", lambda value: isinstance(value, str))
_SWITCH = _Values("True or False", lambda value: isinstance(value, bool))
_SECONDS = _Values("a number of seconds greater than 0", _is_number, hint="for example 300")
_COUNT = _Values("an integer greater than 0", _is_count, hint="for example 20")
_TEXTS = _Values("a list of strings", _are(str), hint='for example ["text"]')
_VARIABLES = _Values("a list of strings", _are(str), hint='for example ["NAME", "OTHER=VALUE"]')
_FOLDERS = _Values("a list of paths", _are((str, os.PathLike)), hint='for example ["../docs"]')
_CALLBACK = _Values("a function or a coroutine function", callable)
_TABLE = _Values("a mapping with string keys", _is_table)
_SERVERS = _Values(
    "a mapping of names to mappings or tool servers",
    lambda value: _is_table(value) and all(map(_is_server, value.values())),  # type: ignore[attr-defined]
    hint='{"NAME": {"command": "…", "args": []}} or {"NAME": tillerman.tool_server(function)}',
)

OPTIONS: Mapping[str, _Values] = {
    "approve": _choice(Preset),
    "mode": _choice(Mode),
    "isolation": _choice(Isolation),
    "supervision": _choice(Supervision),
    "when_busy": _choice(WhenBusy),
    "remember": _choice(Remember),
    "accept_advisory": _SWITCH,
    "accept_unpriced": _SWITCH,
    "repair_output": _SWITCH,
    "fork": _SWITCH,
    "unattended": _SWITCH,
    "workspace_tools": _SWITCH,
    "alone": _SWITCH,
    "agent": _name('`tillerman agents` lists the agents; several in order: "claude,codex"'),
    "session": _name("`tillerman sessions list` lists all sessions"),
    "model": _NAME,
    "effort": _NAME,
    "resume": _NAME,
    "title": _TEXT,
    "system": _TEXT,
    "cwd": _Values("a path", lambda value: isinstance(value, str | os.PathLike) and value != ""),
    "env": _VARIABLES,
    "tools": _TEXTS,
    "allowed_tools": _TEXTS,
    "denied_tools": _TEXTS,
    "only_tools": _TEXTS,
    "flags": _TEXTS,
    "folders": _FOLDERS,
    "servers": _SERVERS,
    "options": _TABLE,
    "output_schema": _TABLE,
    "output": _Values(
        "a type", lambda value: isinstance(value, type), hint="a JSON Schema is for `output_schema`"
    ),
    "on_permission": _CALLBACK,
    "on_question": _CALLBACK,
    "before_call": _CALLBACK,
    "after_call": _CALLBACK,
    "before_prompt": _CALLBACK,
    "after_turn": _CALLBACK,
    "max_turns": _COUNT,
    "max_tokens": _COUNT,
    "max_cost": _Values(
        "an amount in US dollars greater than 0", _is_number, hint="for example 0.5"
    ),
    "timeout": _SECONDS,
    "request_timeout": _SECONDS,
}

_SDK_NAMES: Mapping[str, str] = {  # of claude-agent-sdk's `ClaudeAgentOptions`
    "permission_mode": "`approve`, or `mode` for plan mode,",
    "system_prompt": "`system`",
    "can_use_tool": "`on_permission`",
    "hooks": "`before_call`, `after_call`, `before_prompt` and `after_turn`",
    "mcp_servers": "`servers`",
    "disallowed_tools": "`denied_tools`",
    "add_dirs": "`folders`",
    "max_budget_usd": "`max_cost`",
    "output_format": "`output` or `output_schema`",
    "extra_args": "`flags`",
    "fork_session": "`harness.resume(id, fork=True)`",
}


_SPEC_GROUPS: Mapping[str, tuple[str, str]] = {
    "approve": ("approval", "preset"),
    "accept_advisory": ("approval", "accept_advisory"),
    "allowed_tools": ("tools", "allowed"),
    "denied_tools": ("tools", "denied"),
    "only_tools": ("tools", "only"),
    "servers": ("tools", "servers"),
    "max_turns": ("limits", "turns"),
    "max_cost": ("limits", "cost"),
    "flags": ("native", "flags"),
    "options": ("native", "options"),
}


def session_spec(cwd: Path, **options: Any) -> SessionSpec:
    """Builds the spec of a conversation from options by the names that all interfaces use."""
    return with_options(SessionSpec(cwd), **options)


def with_options(spec: SessionSpec, **options: Any) -> SessionSpec:
    """The spec with other values of these options."""
    groups: dict[str, Any] = {}
    for name in [name for name in options if name in _SPEC_GROUPS]:
        group, field = _SPEC_GROUPS[name]
        changed = groups.get(group, getattr(spec, group))
        groups[group] = replace(changed, **{field: options.pop(name)})
    return replace(spec, **options, **groups)
