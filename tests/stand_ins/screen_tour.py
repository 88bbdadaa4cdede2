"""A tour of the whole terminal interface, for any agent, on a real terminal.

Each function is one sitting before the screen. What the agent plays is told by scenes:

- `hello` says `Hello there.` and shows the code `echo ready`;
- `story` says 60 paragraphs, `Part 1 of it.` and so on, and then `The end.`;
- `run` runs `echo done >> ran.txt`, and says `That was it.`;
- `write` writes `moon` and a line break to `new.txt`, and says `That was it.`;
- `wait` runs WAIT, and says `The wait is over.`;
- `ask` asks `Which colour?`, red or blue, and says `Well chosen.`
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridle.core.events import Entry, TurnEnded, TurnStarted
from bridle.paths import find_paths
from bridle.store.catalog import Catalog
from bridle.store.database import Database
from bridle.store.event_log import EventLog
from bridle.testing.tmux import Tmux

WAIT = "until [ -e go ]; do sleep 0.05; done"
SHIFT_ENTER = "\x1b[13;2u"
WHOLE = (100, 40)


@dataclass(frozen=True)
class Cast:
    """Who is toured, and how it is brought to play a scene."""

    agent: str
    project: Path
    environment: Mapping[str, str]
    scene: Callable[[str], str]  # the prompt that brings it about
    cue: str  # a word that, somewhere in a prompt, makes it play `hello`, once it has played it
    model: str  # one that is not its usual
    steers: bool = True
    changes: bool = True  # takes an input that was changed
    asks: bool = True
    own_command: str | None = None
    servers: bool = True  # it keeps MCP servers
    patience: float = 20.0  # seconds
    login: str = ""  # what is shown: a card, or the words that are run


class Sitting:
    """Somebody before the screen, who also looks into the log."""

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
        """Once it stands in the box: keys may be faster than a list that closes."""
        self.write(line)
        self.press("Enter")

    def write(self, line: str) -> None:
        self.type(line)
        self.boxed(line)

    def erase(self) -> None:
        self.press("C-u")
        self.boxed("")

    def command(self, line: str, *seen: str) -> str:
        """Its card is the last thing on the screen, and shows all this."""
        self.send(line)
        return self.sees(*seen)

    # -- eyes --------------------------------------------------------------------------------------

    def until(self, seen: Callable[[str], bool]) -> str:
        return self.terminal.until(seen, self.cast.patience)

    def sees(self, *words: str) -> str:
        return self.until(_All(words))

    def loses(self, *words: str) -> str:
        return self.until(_None(words))

    def boxed(self, text: str) -> str:
        """The box holds this, and nothing else."""
        return self.until(_Boxed(text))

    # -- the log -----------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Of all sessions of the project, oldest session first."""
        path = find_paths(self.cast.environment).store
        if self._store is None:
            if not path.exists():
                return []
            self._store = Database.open(path, read_only=True)
        log = EventLog(self._store)
        rows = Catalog(self._store).list(cwd=str(self.cast.project))
        return [entry for row in reversed(rows) for entry in log.since(row.id, 0, 10_000)]

    def all(self, kind: type[Any]) -> list[Any]:
        return [entry.event for entry in self.entries() if isinstance(entry.event, kind)]

    def close(self) -> None:
        if self._store:
            self._store.close()

    # -- a turn ------------------------------------------------------------------------------------

    def play(self, scene: str, *seen: str) -> str:
        """To its end, or to what is asked in it."""
        self.send(self.cast.scene(scene))
        return self.sees(*seen)

    def over(self, turns: int, *seen: str) -> str:
        """So many turns have ended, and the screen shows it."""
        self.until(lambda _: len(self.all(TurnEnded)) >= turns)
        return self.until(_Resting(seen))


@dataclass(frozen=True)
class _All:
    words: tuple[str, ...]

    def __call__(self, screen: str) -> bool:
        return all(word in screen for word in self.words)


@dataclass(frozen=True)
class _None:
    words: tuple[str, ...]

    def __call__(self, screen: str) -> bool:
        return not any(word in screen for word in self.words)


@dataclass(frozen=True)
class _Found:
    pattern: str

    def __call__(self, screen: str) -> bool:
        return re.search(self.pattern, screen) is not None


@dataclass(frozen=True)
class _Resting:
    words: tuple[str, ...]

    def __call__(self, screen: str) -> bool:
        busy = re.search(r"working|waits for you|starting", _status(screen))
        return not busy and all(word in screen for word in self.words)


@dataclass(frozen=True)
class _Boxed:
    text: str

    def __call__(self, screen: str) -> bool:
        return _box(screen) == re.sub(r"\s", "", self.text)


def _box(screen: str) -> str:
    """What is typed, without white space: a long line is folded."""
    lines = screen.rstrip().splitlines()
    ends = [at for at, line in enumerate(lines) if line.startswith("╰")]
    starts = [at for at, line in enumerate(lines) if line.startswith("╭")]
    if not ends or not starts:
        return screen
    text = "".join(line.strip("│ ▁▂▃▄▅▆▇█") for line in lines[starts[-1] + 1 : ends[-1]])
    return "" if text.startswith("What is to be done?") else re.sub(r"\s", "", text)


def _status(screen: str) -> str:
    """The line above the keys."""
    return (["", *screen.rstrip().splitlines()])[-2] if screen.strip() else ""


def _works(screen: str) -> bool:
    return "[y] allow" not in screen and "working" in _status(screen)


@contextmanager
def sitting(
    cast: Cast, folder: Path, *words: str, size: tuple[int, int] = WHOLE
) -> Iterator[Sitting]:
    with Tmux(folder, *size) as terminal:
        opened = [sys.executable, "-m", "bridle", "tui", "-a", cast.agent, "--approve", "ask"]
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


# -- the prompt box --------------------------------------------------------------------------------


def speak(cast: Cast, folder: Path) -> None:
    """The prompt box: lines, history, completion, files, shell lines; a turn steered and ended."""
    (cast.project / "greet.py").write_text('print("hello")\n')
    with sitting(cast, folder) as who:
        _lines(who)
        _completion(who)
        who.play("hello")
        who.over(1, "Hello there.", "echo ready", "✓ completed")
        _history(who)
        _shell(who)
        _steering(who)
        _conversation(who)
        _sizes(who)
        quit(who)


def _lines(who: Sitting) -> None:
    who.type("one")
    who.press("C-j")
    who.type("two")
    who.press("M-Enter")
    who.type("three")
    who.type(SHIFT_ENTER)
    who.type("four\\")
    who.press("Enter")
    who.type("five")
    screen = who.boxed("one two three four five")
    assert re.search(r"one\s+│\n│\s*two\s+│\n│\s*three\s+│\n│\s*four\s+│\n│\s*five", screen), screen
    for _ in range(4):
        who.press("C-u", "BSpace")
    who.press("C-u")
    who.boxed("")
    assert not who.entries()


def _completion(who: Sitting) -> None:
    who.type("/co")
    who.sees("/copy", "/cost", "copy the last message")
    who.press("Down", "Tab")
    who.boxed("/cost")
    who.erase()
    who.type("see @gre")
    who.sees("greet.py")
    who.press("Tab")
    who.boxed("see @greet.py")
    who.type("and @nosuchfile")
    who.sees("no file has these letters")
    who.press("Escape")  # the list, and nothing else
    who.loses("no file has these letters")
    who.boxed("see @greet.py and @nosuchfile")
    who.erase()


def _history(who: Sitting) -> None:
    hello = who.cast.scene("hello")
    who.type("a draft")
    who.boxed("a draft")
    who.press("Up")
    who.boxed(hello)
    who.press("Down")
    who.boxed("a draft")
    who.press("C-r")
    who.sees("search the history")
    who.type("hello")
    who.sees(hello)
    who.press("Escape")
    who.boxed("a draft")
    who.erase()
    who.press("C-r")
    who.sees("search the history")
    who.type("hel")
    who.boxed("hel")
    who.press("Enter")
    who.boxed(hello)
    who.loses("search the history")
    who.erase()


def _shell(who: Sitting) -> None:
    who.send("!echo $((6*7))")
    who.sees("$ echo $((6*7))", "▌ 42", "exit code 0")
    who.send("!sleep 60")
    who.sees("runs · esc ends it")
    who.press("Escape")
    who.sees("cancelled ·")
    turns = len(who.all(TurnEnded))
    who.send(f"!!echo {who.cast.cue} $((5*5))")
    who.over(turns + 1)
    assert "25" in who.all(TurnStarted)[-1].prompt
    who.send(f"!echo {who.cast.cue} $((7*7))")
    who.sees("▌ 49", "exit code 0")
    who.send("!!")
    who.over(turns + 2)
    assert "49" in who.all(TurnStarted)[-1].prompt
    assert who.all(TurnStarted)[-1].prompt.startswith("I ran this in")


def _steering(who: Sitting) -> None:
    cast, go = who.cast, who.cast.project / "go"
    turns = len(who.all(TurnEnded))
    who.play("wait", "[y] allow", "waits for you")
    who.press("y")
    who.until(_works)
    who.write("to the left")
    who.press("C-s")
    if cast.steers:
        who.sees("to the left (steer)")
    else:
        who.sees("queue the prompt instead")
        who.boxed("to the left")
        who.erase()
    who.send(cast.scene("hello"))
    who.sees("1 queued")
    go.touch()
    who.over(turns + 2, "The wait is over.", "Hello there.")
    who.loses("1 queued")
    go.unlink()
    who.play("wait", "[y] allow")
    who.press("y")
    who.until(_works)
    who.press("Escape")
    who.over(turns + 3, "⊘ cancelled ·")
    assert who.all(TurnEnded)[-1].reason == "cancelled"


def _conversation(who: Sitting) -> None:
    folded, unfolded = (_Found(f"⊘ .*sleep 0.05.* {mark}") for mark in "▸▾")
    who.press("Tab")
    who.sees("Unfold")
    who.press("Up")  # the last that can be unfolded: the call that was cancelled
    who.until(folded)
    who.press("Enter")
    who.until(unfolded)
    who.sees(f"$ {WAIT}")
    who.press("Space")
    who.until(folded)
    who.press("Tab")
    who.sees("Send")
    turns = len(who.all(TurnEnded))
    who.play("story")
    who.over(turns + 1, "The end.")
    who.press("Tab")
    who.sees("Unfold")
    who.press("Home")
    who.loses("The end.")
    who.until(_Found(rf"\A▌ {re.escape(who.cast.scene('hello'))}"))
    who.press("End")
    who.sees("The end.")
    who.press("PageUp")
    who.loses("The end.")
    who.sees("Part 30 of it.")
    who.press("PageDown")
    who.sees("The end.")
    who.press("Tab")
    who.sees("Send")
    who.write("back in the box")
    who.erase()


def _sizes(who: Sitting) -> None:
    for columns, lines in ((80, 24), (40, 12), WHOLE):
        who.terminal.resize(columns, lines)
        screen = who.sees("The end.", "What is to be done?", who.cast.agent)
        assert all(len(line) <= columns for line in screen.splitlines())
        who.write("still here")
        who.erase()
