"""A rule of a policy: its conditions, its verdict, and how it matches an action."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from tillerman.core.agent import Mode
from tillerman.core.permission.action import PolicyAction
from tillerman.core.permission.path_location import (
    ALL_PLACES,
    DecisionContext,
    PathLocation,
    forbidden_below,
    may_lie_below,
    relative_directories,
    seen_from_workspace,
)
from tillerman.core.permission.patterns import is_pattern, may_match, paths_may_overlap, text_glob
from tillerman.core.permission.shell.parsed_script import (
    HOLE,
    Effect,
    ParsedCommand,
    is_open,
    shown,
)
from tillerman.core.tools import READS

Verdict = Literal["allow", "deny", "ask", "rewrite"]


class RuleMatch(NamedTuple):
    certainty: Literal["no", "maybe", "yes"]
    why: str = ""  # why it is uncertain or unexpected
    files: tuple[str, ...] = ()  # files of a tree that is read: without them it does not match


_NO, _MAYBE, _YES = RuleMatch("no"), RuleMatch("maybe"), RuleMatch("yes")
_CERTAINTY = ("no", "maybe", "yes")

MOST_LEFT_OUT = 40  # files excluded from a search; with more, a person is asked
STRICTNESS: Mapping[str, int] = {"allow": 0, "rewrite": 1, "ask": 2, "deny": 3}


class Rule(Struct, frozen=True, omit_defaults=True):
    """A rule; an unset field matches everything.

    A rule that allows must match with certainty; one that denies, asks or rewrites also matches
    every alternative reading of a command, and asks where it only may match.
    """

    name: str
    verdict: Verdict
    note: str = ""  # the reason, for the denied agent and the person asked
    agents: tuple[str, ...] = ()
    tools: frozenset[str] | None = None  # by name or by class
    besides: frozenset[str] | None = None  # any call except these
    commands: tuple[str, ...] = ()
    line: str | None = None  # a whole command line, exactly
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    modes: frozenset[Mode] | None = None
    rewrite: str | dict[str, Any] | None = None  # the new command, or new fields of the input
    source: str = "tillerman"
    directory: str | None = None  # where commands run, relative to the workspace; "" is its root
    # commands with no other effects by the program table, on files in the workspace only
    effects: frozenset[Effect] | None = None
    spares: frozenset[Effect] = frozenset()  # commands with only these effects are exempt

    @property
    def told(self) -> str:
        """A one-line description for people."""
        what = [*(f"`{_plain(one)}`" for one in self.commands)]
        if self.line is not None:
            what.append(f"`{' '.join(self.line.split())}`, just as it is")
        if self.directory:
            what.append(f"in {self.directory}")
        if self.servers:
            what.append(f"tool {', '.join(map(_plain, self.servers))}")
        elif self.tools and not what:
            what.append(", ".join(_TOLD.get(one, one) for one in sorted(self.tools)))
        if self.paths:
            what = [*(what or ["any use"]), f"of {', '.join(map(_plain, self.paths))}"]
        if self.hosts:
            what = [*(what or ["requests"]), f"to {', '.join(self.hosts)}"]
        if self.agents:
            what.append(f"by {', '.join(self.agents)}")
        if self.modes:
            what.append(f"in mode {' or '.join(sorted(self.modes))}")
        return f"{self.verdict} {' '.join(what) or 'everything'}"

    @property
    def is_exact(self) -> bool:
        """Whether its paths are complete file names without patterns."""
        return bool(self.paths) and not any(
            path in ALL_PLACES or path.endswith("/") or is_pattern(path) for path in self.paths
        )

    def mentions(self, act: PolicyAction) -> bool:
        """Whether the rule applies to an action that is only derived from a command's arguments."""
        if not act.derived or self.line is not None:
            return True
        match act.kind:
            case "file":
                return bool(self.paths)
            case "host":
                return bool(self.hosts)
        if act.command and act.command.inner:
            return bool(self.commands) and self.verdict != "allow"
        return bool(self.commands)

    def concerns(self, act: PolicyAction) -> bool:
        """Whether the rule can match an action of this kind, whatever its arguments."""
        if self.tools is not None and not self.tools & act.names:
            return False
        if self.besides is not None and self.besides & act.call:
            return False
        return not (
            (self.commands and act.kind != "command")
            or (self.hosts and act.kind != "host")
            or (self.servers and "mcp" not in act.names)
            or (self.paths and act.kind == "host")
        )

    def matches(self, act: PolicyAction, context: DecisionContext) -> RuleMatch:
        if self.modes is not None and context.mode not in self.modes:
            return _NO
        if self.agents and context.agent not in self.agents:
            return _NO
        if self.besides is not None and self.besides & act.call:
            return _NO
        if self.tools is not None and not self._is_of(act):
            return _NO
        if self.spares and _does_only(act, self.spares):
            return _NO
        if self.effects is not None and not _does_only(act, self.effects):
            return _NO
        if self.line is not None:
            return _YES if act.line == self.line else _NO
        match = _YES
        if self.commands:
            match = self._command(act, context)
        if self.paths and match is not _NO:
            found = self._path(act, context)
            match = found if match is _YES else min(match, found, key=_certainty)
        if self.hosts and match is not _NO:
            match = min(match, self._host(act), key=_certainty)
        elif self.servers and match is not _NO:
            match = min(match, self._server(act), key=_certainty)
        if act.possible and match.certainty == "yes":
            match = RuleMatch("maybe", f"it names {act.told}, and how it uses it is unknown")
        return _NO if match.certainty == "maybe" and self.verdict == "allow" else match

    def names(self, command: ParsedCommand) -> bool:
        """Whether the rule matches the command itself, not an alternative reading of it."""
        return any(text_glob(one).surely(command.text) for one in self.commands)

    def _is_of(self, act: PolicyAction) -> bool:
        assert self.tools is not None
        if not self.tools & act.names:
            return False
        if self.verdict != "allow" or act.kind != "file" or self.paths or act.names == act.call:
            return True
        # a rule that allows commands does not cover files that they are made to write elsewhere
        guarded = {"outside", "protected", "instructions"}
        if self.line is None:
            guarded.add("unnamed")
        return bool(self.tools & {act.tool}) or not (guarded & act.spots[0].places)

    def _command(self, act: PolicyAction, context: DecisionContext) -> RuleMatch:
        command = act.command
        if act.kind != "command" or command is None:
            return _NO
        if self.verdict == "allow":
            allowed = any(_allowed(one, command) for one in self.commands)
            return _YES if allowed and self._is_there(command, context) else _NO
        readings = (command.text, *command.others)
        globs = [(text_glob(one), one) for one in self.commands]
        if any(glob.surely(text) for glob, _ in globs for text in readings):
            return _YES if self._is_there(command, context) else _NO
        if command.doubts:
            return RuleMatch("maybe", command.doubts[0])
        if any(may_match(*glob, text) for glob in globs for text in readings):
            return _MAYBE
        for text in command.passed:
            if any(glob.surely(text) for glob, _ in globs):
                return RuleMatch("maybe", f"{command.words[0]} may run `{shown(text)}`")
        return _NO

    def _is_there(self, command: ParsedCommand, context: DecisionContext) -> bool:
        if self.directory is None:
            return True
        return relative_directories(command.directories, context) == {self.directory}

    def _path(self, act: PolicyAction, context: DecisionContext) -> RuleMatch:
        every = self.verdict == "allow"
        if not act.spots or (every and act.kind == "command"):
            return _NO
        if every and act.kind == "call" and not (self.tools or self.servers):
            return _NO  # the effect of an unknown tool on a path is unknown
        fits = [
            any(spot.matches(path, context.home, every=every) for path in self.paths)
            for spot in act.spots
        ]
        if every:
            return _YES if all(fits) else _NO
        matched = [spot for spot, fit in zip(act.spots, fits, strict=True) if fit]
        if any(not spot.possible for spot in matched):
            return _YES
        if matched:
            return RuleMatch("maybe", f"it is unknown which files it changes: {matched[0].told}")
        for spot in act.spots:
            if spot.tree and (match := self._below(spot, context)) is not _NO:
                return match
        may = any(_may_be(path, spot, context) for path in self.paths for spot in act.spots)
        return _MAYBE if may else _NO

    def _below(self, spot: PathLocation, context: DecisionContext) -> RuleMatch:
        """Matches files below a tree.

        A change of a tree changes every file in it; a read may be possible without the denied
        files, so a person is asked.
        """
        assert spot.tree is not None
        if not spot.tree.opens_files:
            return _NO
        patterns = [
            one
            for one in self.paths
            if one not in ALL_PLACES and may_lie_below(one, spot.tree, context)
        ]
        for pattern in patterns:
            found = tuple(islice(forbidden_below(pattern, spot.tree, context), MOST_LEFT_OUT + 1))
            if found:
                why = f"{seen_from_workspace(found[0], context)} is in {spot.told}"
                if spot.possible:
                    return RuleMatch("maybe", why)
                return (
                    RuleMatch("maybe", why, found) if spot.tree.is_read else RuleMatch("yes", why)
                )
        if patterns and not spot.tree.complete:
            return RuleMatch("maybe", f"{spot.told} contains more files than were checked")
        return _NO

    def _host(self, act: PolicyAction) -> RuleMatch:
        if act.kind != "host" or act.host is None:
            return _NO
        if HOLE in act.host:
            return _MAYBE
        return _YES if any(_is_host(one, act.host) for one in self.hosts) else _NO

    def _server(self, act: PolicyAction) -> RuleMatch:
        if "mcp" not in act.names:
            return _NO
        if act.server is None:
            return _MAYBE
        name = act.server if self.verdict == "allow" else act.server.casefold()
        patterns = self.servers if self.verdict == "allow" else map(str.casefold, self.servers)
        return _YES if any(text_glob(one).surely(name) for one in patterns) else _NO


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TOLD = {
    "read": "reads",
    "write": "writes",
    "shell": "commands",
    "network": "requests",
    "mcp": "tools of MCP servers",
}


def _certainty(match: RuleMatch) -> int:
    return _CERTAINTY.index(match.certainty)


def _does_only(act: PolicyAction, effects: frozenset[Effect]) -> bool:
    """Whether it is a command with no other effect, or a file it reads, inside the workspace."""
    if any(spot.places & _ELSEWHERE for spot in act.spots):
        return False
    if act.kind == "command":
        command = act.command
        return command is not None and not command.doubts and command.effect in effects
    return act.kind == "file" and act.call == _OF_SHELL and act.tool in READS and "reads" in effects


_ELSEWHERE = frozenset({"outside", "unnamed", "hidden", "unread"})
_OF_SHELL = frozenset({"Bash", "shell"})


def _may_be(pattern: str, spot: PathLocation, context: DecisionContext) -> bool:
    """Whether the pattern can match what is only known at run time: any file, or a glob's match."""
    if pattern in ALL_PLACES or spot.expanded:
        return False  # a location knows all its possible places
    if not spot.wholes:
        return True
    if pattern.startswith("~"):
        pattern = f"{context.home or '/**'}{pattern[1:]}"
    folded = pattern.casefold()
    for whole, inner in spot.folded:
        if not is_open(whole):
            continue
        if folded.startswith("/"):
            found = paths_may_overlap(folded, whole)
        elif "/" in folded.rstrip("/"):
            found = paths_may_overlap(folded.removeprefix("./"), inner)
        else:
            found = any(
                paths_may_overlap(folded, part) for part in inner.split("/") if is_open(part)
            )
        if found:
            return True
    return False


def _allowed(pattern: str, command: ParsedCommand) -> bool:
    return not command.doubts and text_glob(pattern).surely(command.text)


def _is_host(pattern: str, host: str) -> bool:
    pattern = pattern.lower().rstrip(".")
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _plain(pattern: str) -> str:
    return _ESCAPED.sub(r"\1", pattern)
