"""Reads the Qwen Code account from its files and the environment; its command ignores keys."""

from __future__ import annotations

from pathlib import Path

from tillerman.agents.commands.json_files import settings
from tillerman.agents.decoding.fields import at, table
from tillerman.agents.qwen.launch import ROW, Variable
from tillerman.core.agent_admin import Account

_KEYS = {
    "openai": ("OPENAI_API_KEY", "BAILIAN_CODING_PLAN_API_KEY", "BAILIAN_TOKEN_PLAN_API_KEY",
               "DASHSCOPE_API_KEY", "OPENROUTER_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY",),
    "vertex-ai": ("GOOGLE_API_KEY",),
}  # fmt: skip


def account(folder: Path, variable: Variable) -> Account:
    stored = settings(folder / "settings.json")
    chosen = at(stored, "security", "auth", "selectedType")
    if chosen == "qwen-oauth":
        signed_in = (folder / "oauth_creds.json").exists()
        hint = "" if signed_in else ROW.login
        return Account(signed_in=signed_in, method="browser" if signed_in else None, hint=hint)
    for name in _KEYS.get(chosen if isinstance(chosen, str) else "openai", _KEYS["openai"]):
        if variable(name):
            return Account(signed_in=True, method="variable", who=name)
        if table(stored, "env").get(name):
            return Account(signed_in=True, method="api key")
    if at(stored, "security", "auth", "apiKey"):
        return Account(signed_in=True, method="api key")
    return Account(signed_in=False, hint=ROW.login)
