"""Selects the steps for a prompt: inline steps, a named script, or the next turn of a script."""

# Importing pathlib would double the startup time.
# ruff: noqa: PTH100, PTH118, PTH120, PTH123, PTH208
from __future__ import annotations

import json
import os

from .history import MockHistory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Step = dict[str, Any]

BUILT_IN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts")


def choose(prompt: str, memory: MockHistory, settings: dict[str, str]) -> tuple[list[Step], float]:
    """Returns steps and pace; stores the script and its position in `memory`."""
    text = prompt.strip()
    pace = settings.get("pace")
    if text.startswith("[{"):
        return _steps(text), float(pace or 0)
    if (last := text.rpartition("\n")[2]).startswith("[{"):  # below a summary of earlier turns
        return _steps(last), float(pace or 0)
    named = text[7:] if text.startswith("script:") else text if text.endswith(".json") else None
    script = named or settings.get("script") or memory.script or "demo"
    if named or script != memory.script:
        memory.script, memory.played = script, 0
        settings["script"] = script
    turns, own_pace = load(script)
    steps = turns[min(memory.played, len(turns) - 1)]
    memory.played += 1
    return steps, float(own_pace if pace is None else pace)


def _steps(text: str) -> list[Step]:
    """Parses inline steps; other text may follow them, such as a schema."""
    steps: list[Step]
    steps, _ = json.JSONDecoder().raw_decode(text)
    return steps


def load(script: str) -> tuple[list[list[Step]], float]:
    path = script if script.endswith(".json") else os.path.join(BUILT_IN, script + ".json")
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except FileNotFoundError:
        names = sorted(name[:-5] for name in os.listdir(BUILT_IN) if name.endswith(".json"))
        raise ValueError(f"no script {script!r}; built in are {', '.join(names)}") from None
    return (data["turns"], data.get("pace", 0)) if isinstance(data, dict) else (data, 0)
