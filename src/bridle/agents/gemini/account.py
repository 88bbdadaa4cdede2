"""Who is signed in to Gemini CLI, from its files and the environment: no command tells."""

from __future__ import annotations

from pathlib import Path

from bridle.agents.fields import Table, at, parse, text
from bridle.agents.gemini.launch import ROW, Variable
from bridle.core.agent import Account

_NOBODY = Account(signed_in=False, hint=ROW.login)


def account(folder: Path, variable: Variable) -> Account:
    settings = _json(folder / "settings.json")
    match at(settings, "security", "auth", "selectedType"):
        case "oauth-personal" | "login-with-google":
            return _by_browser(folder)
        case "vertex-ai":
            return _by_variable(variable, "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT")
        case "compute-default-credentials" | "cloud-shell":
            return Account(signed_in=True, method="token")
        case "gateway":
            return _by_variable(variable, "GOOGLE_GEMINI_BASE_URL")
    by_key = _by_variable(variable, "GEMINI_API_KEY")
    if by_key.signed_in:
        return by_key
    kept = folder / "gemini-credentials.json"
    if kept.exists() or _names(folder / ".env", "GEMINI_API_KEY"):
        return Account(signed_in=True, method="api key")
    return _by_browser(folder)


def _by_browser(folder: Path) -> Account:
    if not (folder / "oauth_creds.json").exists():
        return _NOBODY
    who = text(_json(folder / "google_accounts.json"), "active")
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


def _json(file: Path) -> Table:
    try:
        said = parse(file.read_bytes())
    except OSError:
        return {}
    return said if isinstance(said, dict) else {}
