"""Approval presets as rules: what is allowed without approval, and what is allowed at all."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from msgspec.structs import replace

from tillerman.core.agent import Mode
from tillerman.core.errors import UsageError
from tillerman.core.permission.path_location import HIDDEN, UNREAD, WORKS_OUTSIDE
from tillerman.core.permission.rules import Rule
from tillerman.core.permission.shell.parsed_script import Effect
from tillerman.core.session_options import Preset
from tillerman.core.tools import READS, WRITES

OF_THE_LOOP = frozenset({"TodoWrite", "ExitPlanMode", "Question"})  # without effects
_PLANNING: frozenset[Mode] = frozenset({"plan", "ask"})
_SUBAGENT = frozenset({"Task"})
_READING: frozenset[Effect] = frozenset({"none", "reads"})
_EDITING: frozenset[Effect] = frozenset({"none", "reads", "writes"})


def guards(name: str, only: Collection[str] = ()) -> tuple[Rule, ...]:
    """Rules that no other rule overrides: the mode, a profile's tool list, and presets that cap."""
    rules: tuple[Rule, ...] = _MODES if name != "none" else ()
    if only:
        tools = frozenset(only) | OF_THE_LOOP
        rules += (
            Rule("profile.tools", "deny", "this profile does not allow this tool", besides=tools),
        )
    return (*rules, *_CAPS.get(name, ()), _HIDDEN)


def preset(name: str) -> tuple[Rule, ...]:
    rules = _PRESETS.get(name)
    if rules is None:
        known = ", ".join(get_args(Preset))
        raise UsageError(f"unknown preset: {name!r}", hint=f"presets: {known}")
    return rules


_MODES = (
    Rule(
        "mode.writes",
        "deny",
        "this mode may not change files",
        tools=frozenset({"write"}),
        modes=_PLANNING,
    ),
    Rule(
        "mode.commands",
        "deny",
        "this mode runs only commands that read",
        tools=frozenset({"shell"}),
        modes=_PLANNING,
        spares=_READING,
    ),
    Rule(
        "mode.network",
        "deny",
        "this mode may not use the network",
        tools=frozenset({"network"}),
        modes=_PLANNING,
    ),
    Rule(
        "mode.servers",
        "deny",
        "this mode may not use tools that may change something",
        tools=frozenset({"mcp"}),
        modes=_PLANNING,
    ),
    Rule(
        "mode.leave",
        "ask",
        "leaving plan mode needs approval",
        tools=frozenset({"ExitPlanMode"}),
        modes=_PLANNING,
    ),
)
_CAPS: dict[str, tuple[Rule, ...]] = {
    "readonly": (
        Rule(
            "readonly.rest",
            "deny",
            "only reads inside the workspace are allowed",
            besides=READS | _SUBAGENT | OF_THE_LOOP - {"ExitPlanMode"},
            spares=_READING,
        ),
    ),
    "none": (Rule("none.all", "deny", "no tool is allowed"),),
}
_HIDDEN = Rule("guard.hidden", "ask", "invisible or look-alike characters", paths=(HIDDEN,))
NEVER_REWRITTEN = frozenset({"guard.hidden", "guard.unread"})
_OUTSIDE = Rule(
    "guard.outside", "deny", "writes outside the workspace", tools=WRITES, paths=("outside",)
)
_PROTECTED = Rule(
    "guard.protected",
    "deny",
    "writes to files that configure agents or start programs",
    tools=WRITES,
    paths=("protected",),
)
_UNREAD = Rule(
    "guard.unread",
    "ask",
    "the command line could not be fully parsed: it may run and write anything",
    tools=WRITES,
    paths=(UNREAD,),
)
_UNNAMED = Rule(
    "guard.unnamed", "ask", "a write that names no file", tools=WRITES, paths=("unnamed",)
)
_WORKS_OUTSIDE = Rule(
    "guard.directory",
    "ask",
    "runs in a folder outside the workspace, and does not only read",
    tools=frozenset({"shell"}),
    paths=(WORKS_OUTSIDE,),
)
_READS = Rule("reads", "allow", "reads inside the workspace", tools=READS, paths=("inside",))
_HARMLESS = Rule("harmless", "allow", "changes nothing", tools=frozenset({"TodoWrite", "Question"}))
_SUBAGENTS = Rule("subagents", "allow", "its calls are checked one by one", tools=_SUBAGENT)
WORKSPACE = Rule(
    "workspace",
    "allow",
    "its calls are checked one by one",
    servers=("tillerman.*",),
)
_READING_COMMANDS = Rule(
    "reads.commands",
    "allow",
    "a command that only reads inside the workspace",
    tools=frozenset({"shell"}),
    effects=_READING,
)
_GUARDS = (_UNREAD, _UNNAMED, _WORKS_OUTSIDE)
_FREE = (_PROTECTED, _OUTSIDE, *_GUARDS, _READS, _READING_COMMANDS, _HARMLESS, _SUBAGENTS)

_PRESETS: dict[str, tuple[Rule, ...]] = {
    "ask": (*_FREE, Rule("ask.rest", "ask", "only reads inside the workspace need no approval")),
    "edits": (
        *_FREE,
        Rule(
            "edits.instructions",
            "ask",
            "writes to a file that instructs agents",
            tools=WRITES,
            paths=("instructions",),
        ),
        Rule(
            "edits.writes", "allow", "writes inside the workspace", tools=WRITES, paths=("inside",)
        ),
        Rule(
            "edits.commands",
            "allow",
            "a command that only writes inside the workspace",
            tools=frozenset({"shell"}),
            effects=_EDITING,
        ),
        Rule("edits.rest", "ask", "only reads and edits inside the workspace need no approval"),
    ),
    "auto": (
        _PROTECTED,
        replace(_OUTSIDE, verdict="ask"),
        *_GUARDS,
        Rule("auto.rest", "allow", "allowed unless a guard denies it"),
    ),
    "readonly": (
        *_FREE,
        Rule("readonly.rest", "deny", "only reads inside the workspace are allowed"),
    ),
    "none": _CAPS["none"],
}
