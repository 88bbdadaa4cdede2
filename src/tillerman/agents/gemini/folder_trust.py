"""Checks whether Gemini CLI trusts a folder.

In other folders it reads no project settings and starts no MCP servers at all.
"""

from __future__ import annotations

from pathlib import Path

from tillerman.agents.commands.json_files import settings
from tillerman.agents.decoding.fields import at
from tillerman.agents.gemini.launch import Variable


def trusted(home: Path, cwd: Path, variable: Variable) -> bool:
    """Whether the user trusts it: by a variable, a setting, or the rule for the nearest folder."""
    if variable("GEMINI_CLI_TRUST_WORKSPACE") == "true":
        return True
    if at(settings(home / "settings.json"), "security", "folderTrust", "enabled") is False:
        return True
    rules = variable("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or home / "trustedFolders.json"
    nearest, folder, word = -1, cwd.resolve(), ""
    for path, rule in settings(Path(rules)).items():
        place = Path(path).parent if rule == "TRUST_PARENT" else Path(path)
        if folder.is_relative_to(place) and len(place.parts) > nearest:
            nearest, word = len(place.parts), str(rule)
    return word in ("TRUST_FOLDER", "TRUST_PARENT")
