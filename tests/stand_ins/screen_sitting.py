"""A user of the terminal interface: types on a real terminal, reads screen and log."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tillerman.core.events import Entry, TurnEnded
from tillerman.paths import find_paths
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.session_row import SessionRow
from tillerman.surfaces.tui.dialogs.request_prompt import GRACE
from tillerman.testing.terminal import Tmux

WAIT = "until [ -e go ]; do sleep 0.05; done >w"
SHIFT_ENTER = "\x1b[13;2u"
WHOLE = (100, 40)


@dataclass(frozen=True)
class Cast:
    """The agent of a tour, and how it is made to play a scene."""

    agent: str
    project: Path
    environment: Mapping[str, str]
    scene: Callable[[str], str]  # the prompt that brings it about
    cue: str  # a word that, somewhere in a prompt, makes it play `hello`, once it has played it
    model: str  # one that is not its usual
    steers: bool = True
    changes: bool = True  # takes an input that was changed
    asks: bool = True
    plans: bool = True  # presents a plan, and waits until it is approved
    own_command: str | None = None
    server: str | None = None  # a configured MCP server, with the tool `shout`
    tools: str = "shout"  # what is shown as the tools of the server
    switches: bool = False  # its servers can be enabled and disabled
    max_wait: float = 20.0  # seconds
    runs_login: str = ""  # the words that are run, where it has some
    login: str = ""  # otherwise the message
    logout: str = ""


class Sitting:
    """A user at the screen, who also reads the log."""

    def __init__(self, cast: Cast, terminal: Tmux) -> None:
        self.cast = cast
        self.terminal = terminal
        self._store: Database | None = None

    # -- hands -------------------------------------------------------------------------------------

    def press(self, *keys: str) -> None:
        self.terminal.press(*keys)

    def type(self, text: str) -> None:
        self.terminal.type(text)

    def send(self, line: str) -> None:
        """Types as fast as keys arrive, without waiting."""
        self.type(line)
        self.press("Enter")

    def write(self, line: str) -> None:
        self.type(line)
        self.boxed(line)

    def erase(self) -> None:
        self.press("C-u")
        self.boxed("")

    def command(self, line: str, *seen: str) -> str:
        """Its card is the last item on the screen, and shows all this."""
        self.send(line)
        return self.sees(*seen)

    # -- eyes --------------------------------------------------------------------------------------

    def until(self, seen: Callable[[str], bool]) -> str:
        return self.terminal.until(seen, self.cast.max_wait)

    def sees(self, *words: str) -> str:
        return self.until(_All(words))

    def loses(self, *words: str) -> str:
        return self.until(_None(words))

    def boxed(self, text: str) -> str:
        """The box contains exactly this."""
        return self.until(_Boxed(text))

    # -- the log -----------------------------------------------------------------------------------

    @property
    def store(self) -> Database:
        if self._store is None:
            path = find_paths(self.cast.environment).store
            self._store = Database.open(path, read_only=True)
        return self._store

    def sessions(self) -> Sequence[SessionRow]:
        """Newest first."""
        return Catalog(self.store).list(cwd=str(self.cast.project))

    def entries(self) -> list[Entry]:
        """Of all sessions of the project, oldest session first."""
        log, rows = EventLog(self.store), reversed(self.sessions())
        return [entry for row in rows for entry in log.since(row.id, 0, 10_000)]

    def all(self, kind: type[Any]) -> list[Any]:
        return [entry.event for entry in self.entries() if isinstance(entry.event, kind)]

    def close(self) -> None:
        if self._store:
            self._store.close()

    # -- a turn ------------------------------------------------------------------------------------

    def play(self, scene: str, *seen: str) -> str:
        """Runs it to its end, or to its request."""
        self.send(self.cast.scene(scene))
        screen = self.sees(*seen)
        if any(word.startswith("[") for word in seen):
            time.sleep(GRACE)  # it is read
        return screen

    def over(self, turns: int, *seen: str) -> str:
        """Waits until so many turns have ended, and the screen shows it."""
        self.until(lambda _: len(self.all(TurnEnded)) >= turns)
        return self.until(_Resting(seen))


@dataclass(frozen=True)
class _All:
    words: tuple[str, ...]

    def __call__(self, screen: str) -> bool:
        return _shows(screen, self.words)


@dataclass(frozen=True)
class _None:
    words: tuple[str, ...]

    def __call__(self, screen: str) -> bool:
        return not any(word in screen for word in self.words)


@dataclass(frozen=True)
class Found:
    pattern: str

    def __call__(self, screen: str) -> bool:
        return re.search(self.pattern, screen) is not None


@dataclass(frozen=True)
class _Resting:
    words: tuple[str, ...]

    def __call__(self, screen: str) -> bool:
        busy = re.search(r"working|needs your approval|starting", status_line(screen))
        return not busy and _shows(screen, self.words)


@dataclass(frozen=True)
class _Boxed:
    text: str

    def __call__(self, screen: str) -> bool:
        return _box(screen) == re.sub(r"\s", "", self.text)


def _shows(screen: str, words: Sequence[str]) -> bool:
    """A long line may be wrapped anywhere: between two words, or within a longer one."""
    flat = re.sub(r"[\s▌│]+", " ", screen)
    bare = re.sub(r"[\s▌│]+", "", screen)
    return all(
        word in screen or word in flat or (" " not in word and word in bare) for word in words
    )


def _box(screen: str) -> str:
    """The prompt box's text without white space, because a long line is wrapped."""
    lines = screen.rstrip().splitlines()
    ends = [at for at, line in enumerate(lines) if line.startswith("╰")]
    starts = [at for at, line in enumerate(lines) if line.startswith("╭")]
    if not ends or not starts:
        return screen
    text = "".join(line.strip("│ ▁▂▃▄▅▆▇█") for line in lines[starts[-1] + 1 : ends[-1]])
    return "" if text.startswith("What should I work on?") else re.sub(r"\s", "", text)


def status_line(screen: str) -> str:
    """The line above the keys."""
    return (["", *screen.rstrip().splitlines()])[-2] if screen.strip() else ""


def works(screen: str) -> bool:
    return "[y] allow" not in screen and "working" in status_line(screen)


@contextmanager
def sitting(
    cast: Cast, folder: Path, *words: str, size: tuple[int, int] = WHOLE
) -> Iterator[Sitting]:
    with Tmux(folder, *size) as terminal:
        opened = [sys.executable, "-m", "tillerman", "tui", "-a", cast.agent, "--approve", "ask"]
        terminal.run([*opened, *words], cast.environment, cast.project)
        terminal.until("works in")
        found = Sitting(cast, terminal)
        try:
            yield found
        finally:
            found.close()


def quit(who: Sitting) -> None:
    who.press("C-q")
    assert who.terminal.ended() == 0
