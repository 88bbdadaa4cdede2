"""Whether a title of an agent's is made of the user's words, or of words that were added to them.

Many agents call a conversation after the beginning of its first prompt, before which an account of
an earlier conversation or an attached file may stand.
"""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.core.agent import File, Prompt
from tillerman.core.handoff_summary import EARLIER, UNFINISHED

_OPENINGS = (EARLIER, UNFINISHED, '<file name="')
LONGEST = 20_000  # characters of a file that are looked through
_LEAST = 8  # characters of a title that say where it comes from


def added_words(prompt: Prompt, sent: str = "") -> str:
    """What goes to an agent with the user's words: `sent`, and the texts of files."""
    return "\n".join([sent, *_texts(prompt.files)])


def is_of_added_words(title: str, prompt: str, added: str) -> bool:
    words = _plain(title)
    if any(_begins_alike(words, _plain(opening)) for opening in _OPENINGS):
        return True
    if len(words) < _LEAST or words in _plain(prompt):
        return False
    return words in _plain(added)


def _begins_alike(words: str, opening: str) -> bool:
    """A title may be cut short."""
    return words.startswith(opening) or (len(words) >= _LEAST and opening.startswith(words))


def _texts(files: Sequence[File]) -> list[str]:
    return [file.data[:LONGEST].decode("utf-8", "ignore") for file in files]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip("….").rstrip()
