"""Titles of sessions: the one that is displayed, and titles of agents that are not accepted.

Many agents name a conversation after the beginning of its first prompt, which may be preceded by a
summary of an earlier conversation or an attached file, and followed by the request for an output
schema: such a title is not accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.core.agent import File, Prompt
from tillerman.core.program.answer_format import REQUEST
from tillerman.core.transcript.handoff_summary import EARLIER, UNFINISHED

_OPENINGS = (EARLIER, UNFINISHED, '<file name="')
LONGEST = 20_000  # characters of a file that are searched
_LEAST = 8  # minimum characters of a title to identify its source


def displayed_title(given: str | None, agent: str | None, prompt: str | None) -> str:
    """The user's title, else the one that the agent gave, else the first prompt; on one line."""
    return " ".join((given or agent or prompt or "").split())


def added_words(prompt: Prompt, sent: str = "") -> str:
    """The text sent to an agent besides the user's prompt: `sent`, and the texts of files."""
    return "\n".join([sent, *_texts(prompt.files)])


def is_of_added_words(title: str, prompt: str, added: str) -> bool:
    words = _plain(title)
    if any(_begins_alike(words, _plain(opening)) for opening in _OPENINGS):
        return True
    if _runs_into(words, _plain(REQUEST)):
        return True
    if len(words) < _LEAST or words in _plain(prompt):
        return False
    return words in _plain(added)


def _runs_into(words: str, request: str) -> bool:
    """Whether the words end with the request or a beginning of it, where they are truncated."""
    cuts = range(_LEAST, len(request) + 1)
    return request in words or any(words.endswith(request[:cut].rstrip()) for cut in cuts)


def _begins_alike(words: str, opening: str) -> bool:
    """Compares the beginnings only, because a title may be truncated."""
    return words.startswith(opening) or (len(words) >= _LEAST and opening.startswith(words))


def _texts(files: Sequence[File]) -> list[str]:
    return [file.data[:LONGEST].decode("utf-8", "ignore") for file in files]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip("….").rstrip()
