"""Debian's Chromium, driven by playwright-core."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real import clis

_BRIDGE = Path(__file__).with_name("browser_bridge.mjs")


class BrowserError(Exception):
    pass


class Chromium:
    """Each method of the bridge is a method here: `browser.click(selector="#send")`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __getattr__(self, command: str) -> Any:
        def call(**options: Any) -> Any:
            assert self._process.stdin
            assert self._process.stdout
            self._process.stdin.write(json.dumps({"command": command, **options}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            if not line:
                raise BrowserError("the browser ended")
            answer = json.loads(line)
            if "error" in answer:
                raise BrowserError(answer["error"])
            return answer["result"]

        return call


@contextmanager
def chromium() -> Iterator[Chromium]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    (core,) = clis.pinned("playwright-core")
    node = clis.node_folder() / "node"
    process = subprocess.Popen(
        [node, _BRIDGE, core.path(), program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Chromium(process)
    finally:
        assert process.stdin
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def axe_script() -> str:
    (axe,) = clis.pinned("axe-core")
    return axe.path().read_text()
