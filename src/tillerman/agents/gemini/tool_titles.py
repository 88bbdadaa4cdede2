"""Parses tool inputs from Gemini CLI's titles, since over ACP it sends no tool input."""

from __future__ import annotations

import re
from collections.abc import Callable

from tillerman.agents.decoding.fields import Table

_SEARCH = re.compile(
    r"'(?P<pattern>.*)'(?: in (?P<include>.+?))?(?: within (?P<path>.+))?", re.DOTALL
)
_PROMPT = re.compile(r'Processing URLs and instructions from prompt: "(?P<prompt>.*)"', re.DOTALL)
_PAGE = re.compile(r"Fetching content from: (?P<url>.*)", re.DOTALL)
_QUERY = re.compile(r'Searching the web for: "(?P<query>.*)"', re.DOTALL)
_PLAN_FILE = re.compile(r"Requesting plan approval for: (?P<plan_path>.+)", re.DOTALL)
_CUT = "..."
_SERVER = re.compile(r"(?P<tool>.+) \((?P<server>.+) MCP Server\)", re.DOTALL)
_UNFIT = re.compile(r"[^a-zA-Z0-9_.:-]")  # characters replaced by an underscore in tool names
_PLACE = re.compile(r"\[in (?P<path>[^\]]+)\]")
_PLAN = re.compile(r"/\.gemini/tmp/[^/]+/(?:[^/]+/)?plans/[\w-]+\.md$")


def input(tool: str, title: str) -> Table:
    reads = _TITLES.get(tool)
    return reads(title) if reads else {}


def command(title: str, *beside: str) -> Table:
    """The whole command, and its folder if that is not the session's."""
    place = next(filter(None, map(_PLACE.match, beside)), None)
    return {"command": title} | ({"dir_path": place["path"]} if place else {})


def server_tool(name: str, title: str) -> str:
    """Converts `mcp_SERVER_TOOL` to `mcp__SERVER__TOOL` by the title, which holds both.

    If it is a command, the model chooses the title, so it counts only if it matches the name.
    Otherwise the name is split at its first underscore, as Gemini CLI does.
    """
    match = _SERVER.fullmatch(title)
    if match and _UNFIT.sub("_", f"mcp_{match['server']}_{match['tool']}") == name:
        return f"mcp__{match['server']}__{match['tool']}"
    server, _, tool = name.removeprefix("mcp_").partition("_")
    return f"mcp__{server}__{tool}"


def is_plan(path: str) -> bool:
    return _PLAN.search(path) is not None


def _search(title: str) -> Table:
    found = _SEARCH.fullmatch(title)
    return {key: value for key, value in found.groupdict().items() if value} if found else {}


def _fetch(title: str) -> Table:
    """The URLs in a prompt, found as the CLI does.

    If there are several, or one may be cut off, no single host is given: a rule that allows one
    must not apply to all.
    """
    if page := _PAGE.fullmatch(title):
        return page.groupdict()
    match = _PROMPT.fullmatch(title)
    prompt = match["prompt"] if match else _CUT
    urls = [word for word in prompt.split() if "://" in word]
    more = [_CUT] if prompt.endswith(_CUT) else []
    input = {"prompt": prompt} if match else {}
    return input | ({"url": " ".join(urls + more)} if urls or more else {})


def _web(title: str) -> Table:
    found = _QUERY.fullmatch(title)
    return found.groupdict() if found else {}


def _plan(title: str) -> Table:
    found = _PLAN_FILE.fullmatch(title)
    return found.groupdict() if found else {}


_TITLES: dict[str, Callable[[str], Table]] = {
    "list_directory": lambda title: {"path": title} if title else {},
    "glob": _search,
    "grep_search": _search,
    "web_fetch": _fetch,
    "google_web_search": _web,
    "exit_plan_mode": _plan,
}
