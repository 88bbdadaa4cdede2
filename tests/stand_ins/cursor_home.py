"""What the stand-in for Cursor stores on disk, where and as the real one does."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

EMAIL = "dev@example.com"


def new_id() -> str:
    """A UUID; the module of that name takes longer to load."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


class Home:
    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.user = Path(os.environ["HOME"])
        self.cursor = Path(os.environ.get("CURSOR_DATA_DIR") or self.user / ".cursor")
        self._told: list[str] = []
        self._telling = threading.Lock()

    # -- who is signed in --------------------------------------------------------------------

    @property
    def login(self) -> Path:
        """The file of the login, which no variable moves."""
        return self.user / ".config" / "cursor" / "auth.json"

    @property
    def key_source(self) -> str | None:
        if os.environ.get("CURSOR_API_KEY"):
            return "env"
        return "login" if self.login.exists() else None

    # -- its config --------------------------------------------------------------------------

    @property
    def config_file(self) -> Path:
        if folder := os.environ.get("CURSOR_CONFIG_DIR"):
            return Path(folder) / "cli-config.json"
        if folder := os.environ.get("XDG_CONFIG_HOME"):
            return Path(folder) / "cursor" / "cli-config.json"
        return self.user / ".cursor" / "cli-config.json"

    def config(self) -> dict[str, Any]:
        return _json(self.config_file)

    def save_model(self, model: str) -> None:
        """Every requested model becomes the user's choice, even a refused one."""
        config = {"version": 1, "permissions": {"allow": [], "deny": []}} | self.config()
        config |= {"model": {"modelId": model}, "hasChangedDefaultModel": True}
        self.config_file.parent.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(json.dumps(config))

    def denied(self) -> list[str]:
        configs = (self.config(), _json(self.cwd / ".cursor" / "cli.json"))
        return [rule for one in configs for rule in one.get("permissions", {}).get("deny", [])]

    # -- its chats ---------------------------------------------------------------------------

    def new_chat(self) -> str:
        chat = new_id()
        self.store(chat).mkdir(parents=True)
        return chat

    def store(self, chat: str) -> Path:
        import hashlib  # most starts need none

        digest = hashlib.md5(str(self.cwd).encode(), usedforsecurity=False).hexdigest()
        return self.cursor / "chats" / digest / chat

    def stored_messages(self, chat: str) -> list[dict[str, Any]]:
        """A chat that never existed is empty, not an error."""
        file = self.store(chat) / "store.db"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def remember(self, chat: str, role: str, words: str) -> None:
        tagged = f"<user_query>\n{words}\n</user_query>" if role == "user" else words
        content = [{"type": "text", "text": tagged}]
        line = json.dumps({"role": role, "message": {"content": content}}) + "\n"
        slug = self.projects / "agent-transcripts" / chat / f"{chat}.jsonl"
        for file in (self.store(chat) / "store.db", slug):
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as stored:
                stored.write(line)

    def note_told(self, rules: str, before: list[dict[str, Any]], now: list[str]) -> None:
        """Records the input of its model, without the scripts that select what to play."""
        messages = [one["message"]["content"][0]["text"] for one in before]
        self._told = [rules, *(words.partition("@@script@@")[0] for words in [*messages, *now])]
        self.note_result("")

    def note_result(self, words: str) -> None:
        """Records a tool's result for its model."""
        with self._telling:
            self._told += filter(None, [words])
            self.cursor.mkdir(parents=True, exist_ok=True)
            reported = json.dumps(self._told, ensure_ascii=False)
            (self.cursor / "stand-in-told.json").write_text(reported)

    @property
    def projects(self) -> Path:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", str(self.cwd)).strip("-")
        return self.cursor / "projects" / slug

    # -- its MCP servers ---------------------------------------------------------------------

    def servers(self, *, approved: bool = False) -> dict[str, dict[str, Any]]:
        """Each server with its status; those of the project need approval."""
        switched = _json(self.projects / "mcp-approvals.json")
        found = {}
        unapproved = "ready" if approved else "not loaded (needs approval)"
        for folder, status in ((self.cwd, unapproved), (self.user, "ready")):
            for name, server in (
                _json(folder / ".cursor" / "mcp.json").get("mcpServers", {}).items()
            ):
                found[name] = {"status": switched.get(name, status), **server}
        return found

    def switch(self, name: str, status: str) -> None:
        file = self.projects / "mcp-approvals.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_json(file) | {name: status}))


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
