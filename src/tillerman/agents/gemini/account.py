"""Reads the Gemini CLI account from its files and the environment, since no command reports it."""

from __future__ import annotations

from pathlib import Path

from tillerman.agents.commands.json_files import settings
from tillerman.agents.decoding.fields import at, text
from tillerman.agents.gemini.launch import BASE_URL, KEY, ROW, Variable
from tillerman.core.agent_admin import Account

_NOBODY = Account(signed_in=False, hint=ROW.login)


def chosen(folder: Path) -> object:
    """The auth method that the user selected, if any."""
    return at(settings(folder / "settings.json"), "security", "auth", "selectedType")


def account(folder: Path, variable: Variable) -> Account:
    match chosen(folder):
        case "oauth-personal" | "login-with-google":
            return _by_browser(folder)
        case "vertex-ai":
            return _by_variable(variable, "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT")
        case "compute-default-credentials" | "cloud-shell":
            return Account(signed_in=True, method="token")
        case "gateway":
            return _by_variable(variable, BASE_URL)
    by_key = _by_variable(variable, KEY)
    if by_key.signed_in:
        return by_key
    if (folder / "gemini-credentials.json").exists() or _names(folder / ".env", KEY):
        return Account(signed_in=True, method="api key")
    return _by_browser(folder)


def _by_browser(folder: Path) -> Account:
    if not (folder / "oauth_creds.json").exists():
        return _NOBODY
    who = text(settings(folder / "google_accounts.json"), "active")
    return Account(signed_in=True, method="browser", who=who or None)


def _by_variable(variable: Variable, *names: str) -> Account:
    for name in names:
        if variable(name):
            return Account(signed_in=True, method="variable", who=name)
    return _NOBODY


def _names(file: Path, name: str) -> bool:
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    return any(line.removeprefix("export ").startswith(f"{name}=") for line in lines)
