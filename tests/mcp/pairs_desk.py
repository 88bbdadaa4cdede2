"""Shared by tests of two features at once: a secret, archives, and a user who answers."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.mcp_desk import Machine, Wire, text, until

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
LEVELS = ("medium", "high")


def isolated(machine: Machine, level: str, *words: str) -> Wire:
    wire = machine.greeted("--approve", "auto", "--isolation", level, *words)
    first = wire.call("execute_shell", command="true")
    if first["isError"] and "isolation" in text(first):
        pytest.skip(text(first))
    return wire


def assert_hidden(reported: object) -> None:
    """Asserts that the text contains no useful part of the secret."""
    shown = reported if isinstance(reported, str) else json.dumps(reported)
    for at in range(len(SECRET) - 11):
        assert SECRET[at : at + 12] not in shown, shown[:2000]


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}


def exported(result: dict[str, Any]) -> str:
    assert not result["isError"], text(result)
    path: str = result["_meta"]["tillerman/result"]["path"]
    return path


def waiting(machine: Machine) -> dict[str, Any]:
    """The one open request, as another process reads it."""
    [found] = until(lambda: machine.json("requests", "list", "--json"))
    request: dict[str, Any] = found["request"]
    return request


def answer(machine: Machine, word: str = "allow") -> dict[str, Any]:
    request = waiting(machine)
    done = machine.run("requests", "answer", request["request_id"], word)
    assert done.returncode == 0, done.stderr
    return request


def log_text(machine: Machine) -> str:
    return json.dumps(machine.log())
