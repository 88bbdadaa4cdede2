"""Describes the CLI's permission suggestions to the user; they are never applied.

Most of them would be written to the CLI's own files, after which it no longer asks.
"""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.agents.decoding.fields import Table, strings, tables, text


def described(request: Table) -> str:
    """One line of text, or "" without suggestions."""
    found = [words for one in tables(request, "permission_suggestions") for words in _words(one)]
    return f"Claude Code would remember: {'; '.join(found)}" if found else ""


def _words(suggestion: Table) -> Iterator[str]:
    where = text(suggestion, "destination")
    match text(suggestion, "type"):
        case "addRules" | "replaceRules":
            rules = [_rule(rule) for rule in tables(suggestion, "rules")]
            what = f"{text(suggestion, 'behavior')} {', '.join(rules)}" if rules else ""
        case "addDirectories":
            what = f"work in {', '.join(strings(suggestion, 'directories'))}"
        case "setMode":
            what = f"mode {text(suggestion, 'mode')}"
        case _:
            what = ""
    if what:
        yield f"{what} ({where})" if where else what


def _rule(rule: Table) -> str:
    name, content = text(rule, "toolName"), text(rule, "ruleContent")
    return f"{name}({content})" if content else name
