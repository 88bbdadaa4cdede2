"""Hooks that a user installed for Cursor, in the stand-in that runs hooks as Cursor does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.stand_ins.cursor_alone import Cursor
from tillerman.hooks.backup_journal import BackupJournal
from tillerman.hooks.install import install, remove
from tillerman.hooks.install_plan import Scope, planned

CONFIG = """\
approve = "edits"

[[rules]]
command = "touch *"
deny = "nobody touches this"

[[rules]]
command = "install-it"
rewrite = "cp made.txt rewritten.txt"

[[rules]]
command = "cp made.txt rewritten.txt"
allow = true
"""
STEPS = (
    {"edit": "made.txt", "content": "x\n"},
    {"shell": "touch denied.txt"},
    {"shell": "install-it"},
    {"shell": 'python3 -c \'open("asked.txt", "w")\''},
    {"edit": ".cursor/hooks.json", "content": "{}"},
)


@pytest.fixture
def cursor(tmp_path: Path) -> Cursor:
    cursor = Cursor(tmp_path)
    config = cursor.home / ".config/tillerman/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG)
    return cursor


def made(cursor: Cursor) -> list[str]:
    return sorted(path.name for path in cursor.project.glob("*.txt"))


@pytest.mark.parametrize("scope", ["project", "user"])
def test_only_calls_the_hooks_allow_run(cursor: Cursor, scope: Scope, tmp_path: Path) -> None:
    hooks = planned("cursor", cursor.project, scope, version="2026.09.28")
    file = (cursor.home if scope == "user" else cursor.project) / ".cursor/hooks.json"
    hooks = type(hooks)("cursor", file, hooks.entries, hooks.frame)
    journal = BackupJournal(tmp_path / "state")
    install(hooks, journal)
    installed = file.read_bytes()

    results = cursor.results(*STEPS, flags=["--force"])

    assert [next(iter(result)) for result in results] == [
        "success",
        "rejected",
        "success",
        "rejected",
        "rejected",
    ]
    assert "nobody touches this" in results[1]["rejected"]["reason"]
    assert made(cursor) == ["made.txt", "rewritten.txt"]
    assert file.read_bytes() == installed  # the agent could not take the gate away

    remove(file, journal)
    cursor.results(*STEPS, flags=["--force"])
    assert made(cursor) == ["asked.txt", "denied.txt", "made.txt", "rewritten.txt"]


def test_nothing_runs_when_the_hooks_fail(cursor: Cursor, tmp_path: Path) -> None:
    hooks = planned("cursor", cursor.project, "project", version="2026.09.28")
    install(hooks, BackupJournal(tmp_path / "state"))
    text = hooks.file.read_text()
    hooks.file.write_text(text.replace(sys.executable, os.fspath(tmp_path / "gone")))
    cursor.results(*STEPS, flags=["--force"])
    assert made(cursor) == []
