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
        "Each case was run with each agent: the real CLI with a scripted model, a stand-in for\n"
        "Cursor, and the embedded mock agent. `make test` and `make test-real` fail when a result\n"
        "changes.\n\n"
        "✓ yes. – the agent does not claim it. ≠ it differs: its page says how. ◦ it could not be\n"
        "tested: its page says why.\n\n"
    )
    text += ROW.format(" | ".join(["", *(f"[{name}]({name}.md)" for name in names)]))
    text += ROW.format(" | ".join(["---", *([":-:"] * len(names))]))
    text += ROW.format(
        " | ".join(["tested version", *(verdicts[name]["version"] for name in names)])
    )
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
        "By class of tools. *Enforced*: the agent asks before each call, and a denied call does\n"
        "not run. *Advisory*: it asks before some calls, or its own rules restrict it. *None*:\n"
        "calls run without a question. –: no such tool. `tillerman doctor --gate` tests the\n"
        "installed agents in the same way.\n\n"
    )
    text += ROW.format(" | ".join(["", "tested version", *CLASSES]))
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
    text += f"\n## What it does\n\nTested with {info.title} {told['version']}.\n\n"
    text += "| | |\n| --- | --- |\n"
    for case in CASES.values():
        verdict, _, why = told["cases"].get(case.name, "unplayed").partition(": ")
        note = f" {why}" if why and verdict in ("differs", "unplayed") else ""
        text += ROW.format(f"{case.what} | {SIGNS[verdict]}{note}")
    missing = [f"`{word}`: {what}" for word, what in CAPABILITIES.items() if word not in claims]
    if missing:
        text += "\n## What it does not claim\n\n"
        text += "A request for one of these is refused before anything starts.\n\n"
        text += "".join(f"- {line}\n" for line in missing)
    return text


def _facts(info: AgentInfo) -> str:
    facts = {
        "program": f"`{info.binary}`" if info.binary else "none: it comes with tillerman",
        "install": f"`{info.install}`" if info.install else "",
        "sign in": info.sign_in,
        "tested versions": " to ".join(dict.fromkeys(info.tested)) if info.tested else "",
        "its variables": ", ".join(f"`{name}`" for name in info.variables),
    }
    return "".join(f"- **{what}**: {fact}\n" for what, fact in facts.items() if fact)


def _sign(verdict: str) -> str:
    return SIGNS[verdict.partition(":")[0]]
