"""Stores the mock's conversation in a file, so that another process can resume it."""

# Importing pathlib would double the startup time.
# ruff: noqa: PTH103, PTH105, PTH118, PTH119, PTH123
from __future__ import annotations

import json
import os


class MockHistory:
    def __init__(self, folder: str, resumed: str | None, fork: bool) -> None:
        self._folder = folder
        self.native_id = resumed if resumed and not fork else "mock-" + os.urandom(6).hex()
        self.turns: list[dict[str, str]] = []  # prompt, said
        self.script: str | None = None
        self.played = 0  # turns of that script
        self.lost: str | None = None  # id of a conversation that was not found
        if resumed:
            try:
                with open(self._path(resumed), encoding="utf-8") as file:
                    self.turns, self.script, self.played = json.load(file)
            except FileNotFoundError:
                self.lost = resumed

    def begin(self, prompt: str) -> None:
        self.turns.append({"prompt": prompt, "said": ""})
        self.save()

    def save(self) -> None:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        path = self._path(self.native_id)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump([self.turns, self.script, self.played], file)
        os.replace(path + ".new", path)

    @property
    def before(self) -> str:
        """The prompts before the current turn."""
        return "; ".join(turn["prompt"] for turn in self.turns[:-1]) or "nothing"

    def _path(self, native_id: str) -> str:
        return os.path.join(self._folder, os.path.basename(native_id) + ".json")
