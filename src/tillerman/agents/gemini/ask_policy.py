"""Builds the policy that makes Gemini CLI ask before every call and keeps the user's denials.

`ask_policy.toml` is passed as an administrator's policy, which overrides all of the user's rules,
including those that deny. If there are any, they are written into it, together with the rules that
make exceptions from them; what those allow is asked about.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tillerman.agents.commands.json_files import settings
from tillerman.agents.decoding.fields import Table, at, strings, table, tables
from tillerman.agents.gemini.launch import GATE, Variable, home
from tillerman.core.errors import Unsupported

_SYSTEM = Path(
    "/Library/Application Support/GeminiCli" if sys.platform == "darwin" else "/etc/gemini-cli"
)
_SETTINGS = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
_SHELL = "run_shell_command"
_PATTERNS = ("argsPattern", "commandPrefix", "commandRegex")
_COMMAND = re.compile(r"(?:run_shell_command|ShellTool)\((?P<prefix>.*)\)")
_ABOVE = 940  # priority above the user's policies, below fixed rules


def refuse_administrators(variable: Variable) -> None:
    """Rejects administrator policies, which would override ours or be hidden by it."""
    named = strings(settings(_system_settings(variable)), "adminPolicyPaths")
    for place in (_SYSTEM / "policies", *map(Path, named)):
        if place.suffix == ".toml" or any(place.glob("*.toml")):
            raise Unsupported(
                "gemini",
                f"administrator policies, because it would not ask: {place}",
                hint='set `agents.gemini.surface = "stream-json"`, where only they apply',
            )


def policy(variable: Variable, cwd: Path) -> str | None:
    """Our policy merged with the user's; None if the user denies nothing."""
    stored = _all_settings(variable, cwd)
    rules = [rule for one in stored for rule in _from_settings(one)]
    rules += _from_policies(home(variable), stored)
    if not any(rule["decision"] == "deny" for rule in rules):
        return None
    import tomlkit  # slow to import, and rarely needed

    rules.sort(key=lambda rule: rule["decision"] != "deny")  # at equal priority, stricter first
    return Path(GATE).read_text("utf-8") + "\n" + tomlkit.dumps({"rule": rules})


def trusted_servers(variable: Variable, cwd: Path) -> list[str]:
    """MCP servers that it never asks about, regardless of a policy."""
    places = (home(variable) / "settings.json", cwd / ".gemini" / "settings.json")
    servers = (
        table(settings(place), "mcpServers") for place in (*places, _system_settings(variable))
    )
    return sorted({name for some in servers for name, one in some.items() if at(one, "trust")})


def _all_settings(variable: Variable, cwd: Path) -> list[Table]:
    """All settings; the project's count as if it were trusted, since they may deny."""
    own = (home(variable) / "settings.json", cwd / ".gemini" / "settings.json")
    return [settings(place) for place in (*own, _system_settings(variable))]


def _system_settings(variable: Variable) -> Path:
    return Path(variable(_SETTINGS) or _SYSTEM / "settings.json")


def _from_policies(folder: Path, stored: list[Table]) -> Iterator[Table]:
    named = [Path(path) for one in stored for path in strings(one, "policyPaths")]
    places = [*(named or [folder / "policies"]), *folder.glob("extensions/*/policies")]
    for file in sorted({found for place in places for found in (place, *place.glob("*.toml"))}):
        try:
            rules = tables(tomllib.loads(file.read_text("utf-8")), "rule")
        except (OSError, ValueError):
            continue  # the CLI skips it too
        yield from (_ranked(rule) for rule in rules if "toolName" in rule)


def _ranked(rule: Table) -> Table:
    """Makes a non-deny rule ask, with a pattern, so that harmless commands are asked about too."""
    priority = rule.get("priority")
    rank = 100 + (priority if isinstance(priority, int) else 0) * 4 // 5
    if rule.get("decision") == "deny":
        return {**rule, "priority": rank}
    names = rule["toolName"] if isinstance(rule["toolName"], list) else [rule["toolName"]]
    patterned = any(key in rule for key in _PATTERNS) or not {_SHELL, "*"} & set(names)
    return {**rule, "decision": "ask_user", "priority": rank} | (
        {} if patterned else {"argsPattern": "."}
    )


def _from_settings(stored: Table) -> Iterator[Table]:
    deny = {"decision": "deny", "priority": _ABOVE}
    for server in strings(table(stored, "mcp"), "excluded"):
        yield {"toolName": "*", "mcpName": server, **deny}
    for tool in strings(table(stored, "tools"), "exclude"):
        yield {"toolName": tool, **deny}
    if core := strings(table(stored, "tools"), "core"):
        yield from map(_core, core)
        modes = ["default", "autoEdit", "yolo"]
        yield {"toolName": "*", "modes": modes, "decision": "deny", "priority": 50}


def _core(tool: str) -> Table:
    ask = {"decision": "ask_user", "priority": 60}
    if command := _COMMAND.fullmatch(tool):
        return {"toolName": _SHELL, "commandPrefix": command["prefix"], **ask}
    name = _SHELL if tool == "ShellTool" else tool.partition("(")[0]
    return {"toolName": name, **ask} | ({"argsPattern": "."} if name == _SHELL else {})
