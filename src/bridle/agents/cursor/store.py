"""The conversations that the CLI keeps on disk, since its own list needs a terminal.

`chats/<hash>/<id>/` is what it resumes; what was said is told by
`projects/<the folder's name>/agent-transcripts/<id>/<id>.jsonl`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from bridle.agents.fields import Table, table, tables, text
from bridle.agents.native import headline, records
from bridle.core.agent import NativeSession

_TAG = re.compile(r"</?user_query>")


def sessions(home: Path, cwd: Path) -> list[NativeSession]:
    """Those of a folder, the latest first."""
    name = _slug(str(cwd.resolve()))
    folders = [folder for folder in home.glob("projects/*") if _slug(folder.name) == name]
    files = [file for folder in folders for file in folder.glob("agent-transcripts/*/*.jsonl")]
    found = [_session(file, cwd) for file in files]
    return sorted(found, key=lambda session: session.updated, reverse=True)


def lacks(home: Path, native_id: str) -> bool:
    """Whether the store is one that we know, and this conversation is not in it."""
    ids = {folder.name for folder in home.glob("chats/*/*") if folder.is_dir()}
    return bool(ids) and native_id not in ids


def _session(file: Path, cwd: Path) -> NativeSession:
    updated = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    stamp = updated.isoformat(timespec="seconds").replace("+00:00", "Z")
    said = filter(None, map(_prompt, records(file)))
    return NativeSession(file.stem, headline(next(said, file.stem)), stamp, str(cwd))


def _prompt(line: Table) -> str:
    message = table(line, "message")
    if "user" not in (text(line, "role"), text(line, "type"), text(message, "role")):
        return ""
    said = "".join(text(part, "text") for part in tables(message, "content"))
    return _TAG.sub("", said).strip()


def _slug(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")
