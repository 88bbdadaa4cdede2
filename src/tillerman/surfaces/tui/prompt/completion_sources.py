"""Sources of completions in the prompt box: commands, files and earlier prompts."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tillerman.surfaces.tui.prompt.completions import Completion
from tillerman.surfaces.tui.prompt.file_picker import FilePicker, fits, reference
from tillerman.surfaces.tui.prompt.history import PromptHistory, matching

_MOST_PROMPTS = 200
_COMMAND = re.compile(r"/[^\s/]*")

Offer = tuple[Sequence[Completion], str]  # the choices, and a note about them


@dataclass(frozen=True)
class CompletedWord:
    """The word being completed, and its start."""

    kind: Literal["command", "file", "past"]
    query: str
    start: tuple[int, int] = (0, 0)

    def is_at_place_of(self, other: CompletedWord | None) -> bool:
        return other is not None and (self.kind, self.start) == (other.kind, other.start)

    def accepts(self, completion: Completion) -> bool:
        """True if a completion from a list of an older query matches what is typed by now."""
        return self.kind == "file" and fits(completion.word, self.query)


def word_before(row: int, before: str, text: str) -> CompletedWord | None:
    """Finds the word to complete. `before`: the line up to the cursor; `text`: the whole prompt."""
    if row == 0 and _COMMAND.fullmatch(before) and "\n" not in text:
        return CompletedWord("command", before)
    found = reference(before)
    if found and not text.startswith("!"):
        return CompletedWord("file", found.query, (row, found.start))
    return None


class CompletionSources:
    def __init__(self, folder: Path) -> None:
        self.commands: Callable[[], Sequence[Completion]] = tuple
        self.past = PromptHistory(tuple)
        self.folder = folder
        self._files = FilePicker(folder)

    def change_folder(self, folder: Path) -> None:
        if folder != self.folder:
            self.folder = folder
            self._files.close()
            self._files = FilePicker(folder)

    def close(self) -> None:
        self._files.close()

    def find_commands(self, query: str) -> Offer:
        """Commands that start with the query, then those that contain it."""
        known = {one.word: one for one in reversed(self.commands())}
        query = query.lower()
        begin = [one for name, one in sorted(known.items()) if name.lower().startswith(query)]
        inner = [
            one
            for name, one in sorted(known.items())
            if query[1:] in name.lower() and one not in begin
        ]
        return [*begin, *inner], ""

    async def find_files(self, query: str) -> AsyncGenerator[Offer, None]:
        """Files that match the query: again whenever more of the folder is known."""
        while (found := await self._files.find(query)) is not None:
            note = "listing files…" if self._files.searching else ""
            if not found and not self._files.searching:
                note = "no matching file"
            elif self._files.cut and not self._files.searching:
                note = "too many files: not all are listed"
            yield [Completion(path) for path in found], note
            if not self._files.searching:
                break
            await self._files.more()

    async def find_prompts(self, query: str) -> Offer:
        found = matching(await self.past.read(), query)
        note = "" if found else "no matching prompt"
        return [Completion(one) for one in found[:_MOST_PROMPTS]], note
