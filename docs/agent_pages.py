"""The pages about agents: what each says of itself, and what the suite found that it does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from tillerman import agents
from tillerman.core.agent import AgentInfo
from tillerman.core.capabilities import CAPABILITIES, capabilities
from tillerman.core.tools import ToolClass
from tillerman.testing.conformance_cases import CASES

FOLDER = Path(__file__).parent / "agents"
SIGNS = {"yes": "✓", "no": "–", "differs": "≠", "unplayed": "◦"}
ROW = "| {} |\n"
CLASSES = get_args(ToolClass)


def pages() -> dict[Path, str]:
    """Every page, by where it is."""
    verdicts = json.loads((FOLDER / "verdicts.json").read_text("utf-8"))
    made = {FOLDER / f"{name}.md": _page(name, told) for name, told in verdicts.items()}
    return {FOLDER / "README.md": _overview(verdicts)} | made


def _overview(verdicts: dict[str, Any]) -> str:
    names = list(verdicts)
    text = (
        "# What each agent can do\n\n"
        "Found by playing every case on every agent: the real CLI before a scripted model, the\n"
        "stand-in for Cursor, the embedded mock. `make test` and `make test-real` fail when one\n"
        "of these changes.\n\n"
        "✓ it does. – it does not claim to. ≠ in a way of its own, told on its page. ◦ there are\n"
        "no means to play it.\n\n"
    )
    text += ROW.format(" | ".join(["", *(f"[{name}]({name}.md)" for name in names)]))
    text += ROW.format(" | ".join(["---", *([":-:"] * len(names))]))
    text += ROW.format(" | ".join(["tried", *(verdicts[name]["version"] for name in names)]))
    for case in CASES.values():
        signs = [_sign(verdicts[name]["cases"].get(case.name, "unplayed")) for name in names]
        text += ROW.format(" | ".join([case.what, *signs]))
    text += _gate() + "\n## What each claims\n\n"
    text += ROW.format(" | ".join(["", *names]))
    text += ROW.format(" | ".join(["---", *([":-:"] * len(names))]))
    claims = {name: capabilities(agents.load(name)) for name in names}
    for word, meaning in CAPABILITIES.items():
        signs = ["✓" if word in claims[name] else "–" for name in names]
        text += ROW.format(" | ".join([f"`{word}` {meaning}", *signs]))
    return text


def _gate() -> str:
    told = json.loads((FOLDER / "gate.json").read_text("utf-8"))
    text = (
        "\n## What the gate holds\n\n"
        "By class of tools. *Enforced*: each call is asked about before it runs, and a denial\n"
        "holds. *Advisory*: some calls are, or the agent's own rules hold it back. *None*: calls\n"
        "run unasked. – it has no such tool. `tillerman doctor --gate` finds it out anew with the\n"
        "agents that are installed.\n\n"
    )
    text += ROW.format(" | ".join(["", "tried", *CLASSES]))
    text += ROW.format(" | ".join(["---"] * (len(CLASSES) + 2)))
    for name, found in told.items():
        holds = [found["holds"].get(kind, "–") for kind in CLASSES]
        text += ROW.format(" | ".join([name, found["version"], *holds]))
    return text


def _page(name: str, told: dict[str, Any]) -> str:
    agent = agents.load(name)
    info = agent.info
    claims = capabilities(agent)
    text = f'# {info.title}\n\n`tillerman run -a {name} "…"`\n\n' + _facts(info)
    text += f"\n## What it does\n\nFound by the suite with {info.title} {told['version']}.\n\n"
    text += "| | |\n| --- | --- |\n"
    for case in CASES.values():
        verdict, _, why = told["cases"].get(case.name, "unplayed").partition(": ")
        note = f" {why}" if why and verdict in ("differs", "unplayed") else ""
        text += ROW.format(f"{case.what} | {SIGNS[verdict]}{note}")
    missing = [f"`{word}`: {what}" for word, what in CAPABILITIES.items() if word not in claims]
    if missing:
        text += "\n## What it does not claim\n\n"
        text += "Asked for one of these, tillerman refuses before anything starts.\n\n"
        text += "".join(f"- {line}\n" for line in missing)
    return text


def _facts(info: AgentInfo) -> str:
    facts = {
        "program": f"`{info.binary}`" if info.binary else "none: it comes with tillerman",
        "install": f"`{info.install}`" if info.install else "",
        "sign in": info.sign_in,
        "versions tried": " to ".join(dict.fromkeys(info.tested)) if info.tested else "",
        "its variables": ", ".join(f"`{name}`" for name in info.variables),
    }
    return "".join(f"- **{what}**: {fact}\n" for what, fact in facts.items() if fact)


def _sign(verdict: str) -> str:
    return SIGNS[verdict.partition(":")[0]]
