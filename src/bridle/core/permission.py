"""The policy: ordered rules that answer a permission request, or leave it to a person.

The first rule that matches decides. Rules see what the agent says it will do: they are advice that
stops honest mistakes and plain attacks, while isolation is the wall.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Callable, Collection, Iterator
from pathlib import PurePath
from typing import Literal, get_args
from urllib.parse import unquote

from msgspec import Struct

from bridle.core.agent import Mode
from bridle.core.errors import UsageError
from bridle.core.events import PermissionRequested
from bridle.core.tools import READS, WRITES, paths_of

Verdict = Literal["allow", "deny", "ask"]
Preset = Literal["ask", "edits", "auto", "readonly", "none"]
Place = Literal["workspace", "outside", "protected", "instructions", "unnamed"]

# Files that start programs or loosen an agent, wherever they lie in the workspace. All of `.git`:
# its config and hooks are commands, and a `.git` file can point at others.
PROTECTED = frozenset({
    ".claude", ".cursor", ".codex", ".gemini", ".qwen", ".opencode", ".agents", ".mcp.json",
    ".vscode", ".idea", ".husky", ".git", ".bridle",
})  # fmt: skip
PROTECTED_PREFIX = ".env"

# Files that steer an agent by words.
INSTRUCTIONS = frozenset({
    "agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md",
    ".cursorrules", ".windsurfrules", "copilot-instructions.md",
})  # fmt: skip

_COMMANDS = frozenset({"Bash"})
_SAFE_TO_PLAN_WITH = READS | {"TodoWrite", "Question", "Task", "WebSearch", "WebFetch"}
_SEARCHES = frozenset(
    {"LS", "Glob", "Grep", "SemSearch"}
)  # of the working folder, if none is named
OF_THE_LOOP = frozenset({"TodoWrite", "ExitPlanMode", "Question"})  # they touch nothing
_MORE_PATHS = ("old_path", "new_path", "source", "destination", "from", "to")
_PATH_LISTS = ("paths", "files", "file_paths")


class Context(Struct, frozen=True):
    """Where a request is judged. `resolve` follows links; without I/O it can only tidy a path."""

    cwd: PurePath
    folders: tuple[PurePath, ...] = ()
    mode: Mode = "agent"
    home: PurePath | None = None
    resolve: Callable[[str], str] = posixpath.normpath


class Decision(Struct, frozen=True):
    verdict: Verdict
    rule: str
    note: str  # why, for the agent that was denied and the person who is asked


class Rule(Struct, frozen=True):
    """What is left out matches everything."""

    name: str
    verdict: Verdict
    note: str
    tools: frozenset[str] | None = None
    besides: frozenset[str] | None = None  # any tool but these
    place: Place | None = None
    modes: frozenset[Mode] | None = None

    def matches(self, tool: str, places: dict[Place, str], mode: Mode) -> bool:
        return (
            (self.tools is None or tool in self.tools)
            and (self.besides is None or tool not in self.besides)
            and (self.modes is None or mode in self.modes)
            and (self.place is None or self._applies(places))
        )

    def _applies(self, places: dict[Place, str]) -> bool:
        if self.place == "workspace":  # all of it, not just a part
            return "outside" not in places and "unnamed" not in places
        return self.place in places


class Policy(Struct, frozen=True):
    rules: tuple[Rule, ...]

    @classmethod
    def preset(cls, name: str, only: Collection[str] = ()) -> Policy:
        """`only`: the tools that may be used at all, if any are named."""
        rules = _PRESETS.get(name)
        if rules is None:
            known = ", ".join(get_args(Preset))
            raise UsageError(f"no preset is called {name!r}", hint=f"presets: {known}")
        if only:
            tools = frozenset(only) | OF_THE_LOOP
            rules = (
                Rule("profile.tools", "deny", "this profile has no such tool", besides=tools),
                *rules,
            )
        return cls(rules)

    def decide(self, request: PermissionRequested, context: Context) -> Decision:
        places = _places(request, context)
        for rule in self.rules:
            if rule.matches(request.tool, places, context.mode):
                path = places.get(rule.place) if rule.place else None
                note = f"{rule.note}: {path}" if path else rule.note
                return Decision(rule.verdict, rule.name, note)
        return Decision("ask", "default", "no rule speaks of this")


# -- the presets -----------------------------------------------------------------------------------

_PLANNING: frozenset[Mode] = frozenset({"plan", "ask"})

_ALWAYS = (
    Rule("mode.writes", "deny", "this mode changes no files", tools=WRITES, modes=_PLANNING),
    Rule("mode.commands", "deny", "this mode runs no commands", tools=_COMMANDS, modes=_PLANNING),
    Rule(
        "mode.leave",
        "ask",
        "a person decides when planning ends",
        tools=frozenset({"ExitPlanMode"}),
        modes=_PLANNING,
    ),
    Rule("guard.outside", "deny", "writes outside the workspace", tools=WRITES, place="outside"),
    Rule(
        "guard.protected",
        "deny",
        "writes to files that configure agents or start programs",
        tools=WRITES,
        place="protected",
    ),
)
# Nobody can tell what these do, so no preset lets them pass while the agent should only plan.
_PLAN_UNKNOWN = Rule(
    "mode.unknown",
    "ask",
    "this mode changes nothing, and what this tool does is not known",
    besides=_SAFE_TO_PLAN_WITH,
    modes=_PLANNING,
)
_READS = Rule("reads", "allow", "reads inside the workspace", tools=READS, place="workspace")
_HARMLESS = Rule("harmless", "allow", "changes nothing", tools=frozenset({"TodoWrite", "Question"}))
_SUBAGENTS = Rule(
    "subagents", "allow", "its own calls are judged one by one", tools=frozenset({"Task"})
)
_UNNAMED = Rule("guard.unnamed", "ask", "a write that names no file", tools=WRITES, place="unnamed")
_INSTRUCTIONS = Rule(
    "edits.instructions",
    "ask",
    "writes to a file that instructs agents",
    tools=WRITES,
    place="instructions",
)
_EDITS = Rule(
    "edits.writes", "allow", "writes inside the workspace", tools=WRITES, place="workspace"
)

_PRESETS: dict[str, tuple[Rule, ...]] = {
    "ask": (
        *_ALWAYS,
        _READS,
        _HARMLESS,
        _SUBAGENTS,
        Rule("ask.rest", "ask", "only reads inside the workspace need no word"),
    ),
    "edits": (
        *_ALWAYS,
        _READS,
        _HARMLESS,
        _SUBAGENTS,
        _INSTRUCTIONS,
        _EDITS,
        Rule("edits.rest", "ask", "only reads and edits inside the workspace need no word"),
    ),
    "auto": (
        *_ALWAYS,
        _PLAN_UNKNOWN,
        _UNNAMED,
        Rule("auto.rest", "allow", "everything that no guard denies"),
    ),
    "readonly": (
        *_ALWAYS,
        _READS,
        _HARMLESS,
        _SUBAGENTS,
        Rule("readonly.rest", "deny", "only reads inside the workspace are allowed"),
    ),
    "none": (Rule("none.all", "deny", "no tool is allowed"),),
}


# -- where a request would reach -------------------------------------------------------------------


def _places(request: PermissionRequested, context: Context) -> dict[Place, str]:
    """Each kind of place that the request touches, with the first path that does."""
    places: dict[Place, str] = {}
    named = list(_named(request))
    if not named and request.tool not in _SEARCHES:
        places["unnamed"] = ""
    for path in named:
        places.setdefault(_place(path, request.tool, context), path)
    return places


def _named(request: PermissionRequested) -> Iterator[str]:
    yield from request.paths
    yield from paths_of(request.input)
    for key in _MORE_PATHS:
        value = request.input.get(key)
        if isinstance(value, str) and value:
            yield value
    for key in _PATH_LISTS:
        value = request.input.get(key)
        if isinstance(value, list):
            yield from (path for path in value if isinstance(path, str) and path)
    pattern = request.input.get("pattern")
    if request.tool == "Glob" and isinstance(pattern, str):
        yield pattern  # `../*` and `/etc/*` leave the workspace without any path


def _place(path: str, tool: str, context: Context) -> Place:
    """As written and with links followed: the worse of the two counts."""
    whole = _absolute(path, context)
    if whole is None:
        return "outside"
    cwd = [posixpath.normpath(str(root)) for root in (context.cwd, *context.folders)]
    real = [context.resolve(root) for root in cwd]
    found: set[Place] = {
        _within(posixpath.normpath(whole), [*cwd, *real], tool),
        _within(context.resolve(whole), real, tool),
    }
    order: tuple[Place, ...] = ("outside", "protected", "instructions", "workspace")
    return next(place for place in order if place in found)


def _absolute(path: str, context: Context) -> str | None:
    """None for what cannot be a path, or not one that we can place."""
    if "\0" in path:
        return None
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://"))
    if path == "~" or path.startswith("~/"):
        return posixpath.join(str(context.home), path[2:]) if context.home else None
    return None if path.startswith("~") else posixpath.join(str(context.cwd), path)


def _within(path: str, roots: list[str], tool: str) -> Place:
    for root in roots:
        if path == root:
            # to move or delete the root moves every protected name in it
            return "protected" if tool in ("Delete", "Rename") else "workspace"
        prefix = root.rstrip("/") + "/"
        if path.startswith(prefix):
            names = [_plain(name) for name in path[len(prefix) :].split("/")]
            if any(name in PROTECTED or name.startswith(PROTECTED_PREFIX) for name in names):
                return "protected"
            return "instructions" if names[-1] in INSTRUCTIONS else "workspace"
    return "outside"


def _plain(name: str) -> str:
    """A name as the laxest file system compares it: no case, no invisible characters."""
    visible = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", visible.casefold()).rstrip(" .")
