"""Which files of the machine a tool may read for a session at each level."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tillerman.supervision.isolation.readable_files import closed_to

LEVELS = ("basic", "medium", "high")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home behind a link, with tillerman's files in it and a workspace."""
    real = tmp_path / "real"
    for name in ("own/state/exports", "work", ".local/bin", ".ssh", "project"):
        (real / name).mkdir(parents=True)
    (tmp_path / "home").symlink_to(real)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home/own"))
    monkeypatch.setenv("PATH", "/usr/bin")
    return real


def closed(machine: Path, name: str) -> list[str]:
    """The levels at which the file is not readable."""
    path = machine / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text("x")
    workspace = machine.parent / "home/work"
    status = path.stat()
    return [level for level in LEVELS if closed_to(level, workspace, str(path), status)]


def test_tillermans_own_files_are_closed_at_every_level(machine: Path) -> None:
    for name in ("own/state/store.db", "own/config.toml", "own/sockets/x", "own/state/exportsx/y"):
        assert closed(machine, name) == [*LEVELS], name


def test_what_was_exported_can_be_imported_again(machine: Path) -> None:
    assert closed(machine, "own/state/exports/session/file") == ["medium", "high"]


def test_the_workspace_the_system_and_toolchains_are_open(machine: Path) -> None:
    for name in ("work/file", ".local/bin/tool", "/usr/bin/env", "/etc/hostname"):
        assert closed(machine, name) == [], name


def test_the_home_is_open_to_commands_at_basic_alone(machine: Path) -> None:
    for name in (".ssh/id_rsa", "project/file", ".bashrc", "workx/file", ".local/binx/tool"):
        assert closed(machine, name) == ["medium", "high"], name


@pytest.mark.skipif(os.geteuid() != 0, reason="for others the kernel sees to it")
def test_files_only_root_can_read_are_closed_where_commands_lose_that_capability(
    machine: Path,
) -> None:
    assert closed(machine, "/etc/shadow") == ["medium", "high"]
    (machine / ".local/bin/foreign").write_text("x")
    os.chown(machine / ".local/bin/foreign", 65534, 65534)
    (machine / ".local/bin/foreign").chmod(0o600)
    assert closed(machine, ".local/bin/foreign") == ["high"]
