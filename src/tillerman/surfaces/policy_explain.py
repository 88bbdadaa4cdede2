"""Explains policy decisions: evaluates a tool call with the rules of a session in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tillerman.config import Config
from tillerman.core import tools
from tillerman.core.errors import UsageError
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.json_argument import json_object
from tillerman.surfaces.rendering import formatting
from tillerman.workspace.files.policy_lookup import DiskFiles, resolved

_MEANT = {name.lower(): name for name in tools.TOOLS} | {
    "shell": "Bash",
    "network": "WebFetch",
    "mcp": "mcp__SERVER__TOOL",
}


def policy(config: Config, cwd: Path, approve: str | None) -> Policy:
    """The policy that a session in this folder would use."""
    from tillerman.sessions.permissions.project_rules import ProjectRules

    made = Policy.preset(
        approve or config.approve, rules=config.rules, tightening=config.tightening
    )
    return made.remembering(ProjectRules.of(config.paths, cwd).rules())


def context(cwd: Path, mode: Any, agent: str) -> DecisionContext:
    return DecisionContext(
        cwd,
        mode=mode,
        home=Path.home(),
        resolve=resolved,
        agent=agent,
        files=DiskFiles(),
    )


def request(tool: str, input: dict[str, Any], cwd: Path) -> PermissionRequested:
    _refuse_misnamed(tool)
    name = ""
    if tool.startswith("mcp__") and tool.count("__") >= 2:
        _, server, called = tool.split("__", 2)
        tool, name = "MCP", f"{server}.{called}"
    title = tools.title(tool, input, name=name, cwd=str(cwd))
    return PermissionRequested(
        request_id="explain", tool=tool, title=title, input=input, paths=tools.paths_of(input)
    )


def call(tool: str, given: str) -> tuple[str, dict[str, Any]]:
    """Parses a typed tool and input. If no tool is named, the text is a shell command."""
    if not _names_a_tool(tool) and not given.startswith("{"):
        tool, given = "Bash", f"{tool} {given}".strip()
    return tool, _arguments(tool, given)


def _names_a_tool(text: str) -> bool:
    return text in tools.TOOLS or text.lower() in _MEANT or text.startswith("mcp__")


def _arguments(tool: str, given: str) -> dict[str, Any]:
    """Parses the typed arguments: JSON, or a bare command for Bash."""
    _refuse_misnamed(tool)
    if not given:
        return {}
    if tool == "Bash" and not given.lstrip().startswith('{"'):
        return {"command": given}
    example = """'{"file_path": "a.txt"}'"""
    return json_object(
        given, "INPUT", hint=f"for example {example}; only Bash accepts a bare command"
    )


def _refuse_misnamed(tool: str) -> None:
    if tool not in tools.TOOLS and (meant := _MEANT.get(tool.lower())):
        raise UsageError(f"unknown tool {clean(tool)!r}", hint=f"did you mean {meant}?")


def notes(rules: Sequence[Rule], tightening: Sequence[Rule]) -> dict[int, str]:
    """Notes shown beside rules, by `id(rule)`: restricting-only and unreachable rules."""
    fields = {id(rule): "applies only if stricter" for rule in tightening}
    return fields | {
        id(rule): f"never reached: see {formatting.one_line(first.name)}"
        for rule, first in _shadowed(rules)
    }


def _shadowed(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Yields each unreachable rule with the earlier rule that always decides first."""
    for at, rule in enumerate(rules):
        for first in rules[:at]:
            if _covers(first, rule):
                yield rule, first
                break


def _covers(first: Rule, rule: Rule) -> bool:
    if _matchers(first) == _matchers(rule):
        # an allow rule that does not match for certain falls through to the next rule
        return first.verdict != "allow" or rule.verdict == "allow"
    if any(_matchers(first)):
        return False
    # files and hosts inside a command are matched only by rules that name files or hosts
    within = rule.commands or rule.line or rule.paths or rule.hosts
    return not within or first.verdict == "deny" or rule.verdict == "allow"


def _matchers(rule: Rule) -> tuple[Any, ...]:
    return (rule.agents, rule.tools, rule.commands, rule.line, rule.paths, rule.hosts,
            rule.servers, rule.modes)  # fmt: skip
