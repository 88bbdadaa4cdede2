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

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tillerman.core.events import Entry, RequestAnswered, SettingsChanged, TurnEnded, TurnStarted
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
    plans: bool = True  # presents a plan, and waits until it is approved
    own_command: str | None = None
    server: str | None = None  # an MCP server that it keeps, with the tool `shout`
    tools: str = "shout"  # what is told when somebody wants the tools of the server
    switches: bool = False  # its servers can be enabled and disabled
    patience: float = 20.0  # seconds
    runs_login: str = ""  # the words that are run, where it has some
    login: str = ""  # else what is told
    logout: str = ""


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
        """As fast as keys come: nothing is waited for."""
        self.type(line)
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
        """To its end, or to what is asked in it."""
        self.send(self.cast.scene(scene))
        screen = self.sees(*seen)
        if any(word.startswith("[") for word in seen):
            time.sleep(GRACE)  # it is read
        return screen

    def over(self, turns: int, *seen: str) -> str:
        """So many turns have ended, and the screen shows it."""
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
class _Found:
    pattern: str

    def __call__(self, screen: str) -> bool:
        return re.search(self.pattern, screen) is not None


@dataclass(frozen=True)
class _Resting:
    words: tuple[str, ...]

    def __call__(self, screen: str) -> bool:
        busy = re.search(r"working|needs your approval|starting", _status(screen))
        return not busy and _shows(screen, self.words)


@dataclass(frozen=True)
class _Boxed:
    text: str

    def __call__(self, screen: str) -> bool:
        return _box(screen) == re.sub(r"\s", "", self.text)


def _shows(screen: str, words: Sequence[str]) -> bool:
    """A long line may be folded anywhere: between two words, or in one that is longer than it."""
    flat = re.sub(r"[\s▌│]+", " ", screen)
    bare = re.sub(r"[\s▌│]+", "", screen)
    return all(
        word in screen or word in flat or (" " not in word and word in bare) for word in words
    )


def _box(screen: str) -> str:
    """What is typed, without white space: a long line is folded."""
    lines = screen.rstrip().splitlines()
    ends = [at for at, line in enumerate(lines) if line.startswith("╰")]
    starts = [at for at, line in enumerate(lines) if line.startswith("╭")]
    if not ends or not starts:
        return screen
    text = "".join(line.strip("│ ▁▂▃▄▅▆▇█") for line in lines[starts[-1] + 1 : ends[-1]])
    return "" if text.startswith("What should I work on?") else re.sub(r"\s", "", text)


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


# -- the prompt box --------------------------------------------------------------------------------


def speak(cast: Cast, folder: Path) -> None:
    """The prompt box: lines, history, completion, files, shell lines; a turn steered and ended."""
    (cast.project / "greet.py").write_text('print("hello")\n')
    with sitting(cast, folder) as who:
        _lines(who)
        _completion(who)
        _pasting(who)
        who.play("hello")
        who.over(1, "Hello there.", "echo ready", "✓ completed")
        _own_command(who)
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
    who.sees("no matching file")
    who.press("Escape")  # the list, and nothing else
    who.loses("no matching file")
    who.boxed("see @greet.py and @nosuchfile")
    who.erase()


def _pasting(who: Sitting) -> None:
    who.write("ab")
    who.press("F7", "C-c", "Right", "C-v")
    who.boxed("abab")
    who.erase()
    who.type(f"\x1b[200~{who.cast.project / 'greet.py'}\x1b[201~")  # a file that is dropped
    who.sees("greet.py 15 B", "backspace removes the last one")
    who.press("BSpace")
    who.loses("backspace removes the last one")


def _own_command(who: Sitting) -> None:
    if own := who.cast.own_command:
        who.type(own[:-2])
        who.sees(own, f"of {who.cast.agent}")
        who.press("Tab")
        who.boxed(own)
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
    who.sees("search history")
    who.type("hello")
    who.sees(hello)
    who.press("Escape")
    who.boxed("a draft")
    who.erase()
    who.press("C-r")
    who.sees("search history")
    who.type("hel")
    who.boxed("hel")
    who.press("Enter")
    who.boxed(hello)
    who.loses("search history")
    who.erase()


def _shell(who: Sitting) -> None:
    who.send("!echo $((6*7))")
    who.sees("$ echo $((6*7))", "▌ 42", "exit code 0")
    who.send("!sleep 60")
    who.sees("running · esc to stop")
    who.press("Escape")
    who.sees("cancelled ·")
    turns = len(who.all(TurnEnded))
    who.send(f"!!echo {who.cast.cue} $((5*5))")
    who.over(turns + 1)
    assert "25" in who.all(TurnStarted)[-1].prompt
    who.send(f"!echo {who.cast.cue} $((7*7))")
    who.sees(f"▌ {who.cast.cue} 49".replace("  ", " "), "exit code 0")
    who.send("!!")
    who.over(turns + 2)
    assert "49" in who.all(TurnStarted)[-1].prompt
    assert who.all(TurnStarted)[-1].prompt.startswith("I ran this in")


def _steering(who: Sitting) -> None:
    cast, go = who.cast, who.cast.project / "go"
    turns = len(who.all(TurnEnded))
    who.play("wait", "[y] allow", "needs your approval")
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
    who.until(_Found(rf"\A(?: .*\n)?▌ {re.escape(who.cast.scene('hello'))}"))
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
        screen = who.sees("The end.", "What should I work on?", who.cast.agent)
        assert all(len(line) <= columns for line in screen.splitlines())
        who.write("still here")
        who.erase()


# -- what is asked ---------------------------------------------------------------------------------


def permit(cast: Cast, folder: Path) -> None:
    """Permissions: allowed, denied, denied with a word, changed, remembered; a question; a plan."""
    ran = cast.project / "ran.txt"
    with sitting(cast, folder) as who:
        who.play("run", "[y] allow", "[n] deny", "ran.txt", "1 waiting")
        assert not ran.exists()
        who.press("?")
        who.sees("[?] less", '"command": "echo done >> ran.txt"')
        who.press("?")
        who.sees("[?] details")
        who.press("y")
        who.over(1, "That was it.", "→ allowed by you")
        assert ran.read_text() == "done\n"
        who.play("run", "[y] allow")
        who.press("n")
        who.over(2, "→ denied by you", "⊘ Bash")
        assert ran.read_text() == "done\n"
        _with_a_word(who)
        _changed(who)
        _remembered(who)
        if cast.asks:
            _question(who)
        _plan(who)
        quit(who)


def _with_a_word(who: Sitting) -> None:
    who.play("run", "[y] allow")
    who.press("r")
    who.sees("reason: ")
    who.press("Escape")  # back to the question; the turn goes on
    who.sees("[r] deny with a reason")
    who.press("r")
    who.sees("reason: ")
    who.type("use make insteadd")
    who.press("BSpace")
    who.sees("reason: use make instead▏")
    who.press("Enter")
    who.over(3, "→ denied by you: use make instead")
    assert who.all(RequestAnswered)[-1].answer.note == "use make instead"


def _changed(who: Sitting) -> None:
    ran = who.cast.project / "ran.txt"
    who.play("run", "[y] allow")
    who.press("e")
    if not who.cast.changes:
        who.sees("this agent does not accept changed input")
        who.press("n")
        who.over(4)
        return
    who.sees("Allow with changes", '"command": "echo done >> ran.txt"')
    who.press("Escape")
    who.sees("[y] allow")
    who.press("e")
    who.sees("Allow with changes")
    who.press("C-s")
    who.sees("nothing was changed")
    who.press("F7", "BSpace")
    who.loses('"command"')
    who.type('{"command": "echo changed >> ran.txt"')
    who.press("C-s")
    who.sees("not a JSON object")
    who.type("}")
    who.press("C-s")
    who.over(4, "→ allowed with changes by you")
    assert ran.read_text() == "done\nchanged\n"


def _remembered(who: Sitting) -> None:
    ran = who.cast.project / "ran.txt"
    before = ran.read_text()
    who.play("run", "[y] allow")
    who.press("a")
    who.sees("[s] in this session", "[p] in this project", "always: ")
    who.press("d")
    who.sees("always: deny ")
    who.press("d")
    who.sees("always: allow ")
    who.press("Escape")
    who.sees("[y] allow")
    who.press("a")
    who.sees("[s] in this session")
    who.press("s")
    who.over(5, "→ allowed always in this session by you")
    who.play("run")
    who.over(6)  # and nobody was asked
    assert ran.read_text() == f"{before}done\ndone\n"
    assert who.all(RequestAnswered)[-1].by == "policy"


def _question(who: Sitting) -> None:
    turns = len(who.all(TurnEnded))
    who.play("ask", "Which colour?", "[1] red", "[2] blue", "[t] type an answer")
    who.press("2")
    who.over(turns + 1, "Well chosen.", "→ answer: blue")
    who.play("ask", "[t] type an answer")
    who.press("t")
    who.sees("your answer: ")
    who.type("green")
    who.press("Enter")
    who.over(turns + 2, "→ answer: green")
    answers = [one.answer.answers for one in who.all(RequestAnswered)[-2:]]
    assert [list(one.values()) for one in answers] == [["blue"], ["green"]]


def _plan(who: Sitting) -> None:
    turns = len(who.all(TurnEnded))
    who.command("/mode plan", "Mode: plan")
    who.until(lambda screen: "plan" in _status(screen))
    who.play("write")
    who.over(turns + 1)
    assert not (who.cast.project / "new.txt").exists()
    who.command("/mode agent", "Mode: agent")
    who.until(lambda screen: "plan" not in _status(screen))
    who.play("write", "[y] allow", "1+ moon")
    who.press("y")
    who.over(turns + 2, "+ moon")
    assert (who.cast.project / "new.txt").read_text() == "moon\n"


# -- slash commands --------------------------------------------------------------------------------


def command(cast: Cast, folder: Path) -> None:
    """Every slash command, with words and without, and one that there is not."""
    with sitting(cast, folder) as who:
        _before_a_session(who)
        who.command("/clear")
        who.play("write", "[y] allow")
        who.press("y")
        who.over(1)
        who.play("hello")
        who.over(2, "Hello there.")
        _of_the_session(who)
        _of_the_agent(who)
        _of_sessions(who)
        who.send("/quit")
        assert who.terminal.ended() == 0


def _before_a_session(who: Sitting) -> None:
    agent = who.cast.agent
    who.command("/nosuch", "unknown command: /nosuch", "/help lists them.")
    who.command("/modell", "did you mean /model or /models?")
    who.command("/quit now", "/quit takes no arguments")
    who.command("/help fork", "/fork", "copy this session")
    who.command("/help", "Commands and keys", "/login [AGENT]")
    who.command("/diff", "there are no turns yet")
    who.command("/cost", "no usage reported yet")
    who.command("/copy", "the agent has not written anything yet")
    who.command("/export", "the session has not started")
    who.command("/fork", "the session has not started")
    who.command("/policy", "Rules", "approve: ask")
    who.command("/policy Bash rm -rf build", "/policy Bash rm -rf build", "ask")
    who.command(f"/agent {agent}", f"Agent: {agent}", "ready; it starts")
    who.command("/agent nobody", "nobody")


def _of_the_session(who: Sitting) -> None:
    project = who.cast.project
    who.command("/diff", "No files changed in turn 2")
    who.command("/diff 1", "in turn 1", "new.txt", "moon")
    who.command("/diff all", "in 2 turns", "new.txt")
    who.command("/diff 9", "unknown turn '9'", "use 1 to 2, or all")
    who.command("/cost", "Usage", "TURN", "all")
    who.command("/copy", "Copied", "the last message, ")
    who.command("/copy code", "the last code block, 1 line")
    who.command("/copy that", "/copy: unknown argument 'that'")
    who.command("/export notes.html", "notes.html (")
    assert "Hello there." in (project / "notes.html").read_text()
    who.command("/export notes.html", "already exists", "choose another file name")
    who.command("/export out jsonl", ", jsonl)")
    assert json.loads((project / "out").read_text().splitlines()[0])
    who.command("/theme nosuch", "unknown theme 'nosuch'")
    who.command("/theme nord", "Theme: nord", "saved in your config")
    who.send("/theme")
    who.sees("Themes", "type to filter", "● nord")
    who.press("Escape")
    who.loses("type to filter")


def _of_the_agent(who: Sitting) -> None:
    cast, agent = who.cast, who.cast.agent
    who.command("/status", f"Status of {agent}", "ready")
    who.command("/status all", "Status of all agents", "AGENT", "codex")
    who.command("/status nobody", "nobody")
    who.command("/models", f"Models of {agent}", cast.model, "select one with /model NAME")
    who.command(f"/models {agent}", cast.model)
    who.send("/model")
    who.sees(f"Models of {agent}", "type to filter")
    who.press("Escape")
    who.loses("type to filter")
    who.command(f"/model {cast.model}", f"Model: {cast.model}", "applies from the next prompt")
    who.until(lambda screen: cast.model in _status(screen))
    who.command("/model two words", "a model name has no spaces")
    who.send("/mode")
    who.sees("─ Mode ", "reads and plans")
    who.press("Escape")
    who.loses("─ Mode ")
    who.command("/mode nosuch", "there is no mode 'nosuch'")
    who.send("/agent")
    who.sees("Agents", "type to filter", f"● {agent}")
    who.press("Escape")
    who.loses("type to filter")
    who.command("/mcp nosuch", "/mcp: unknown argument 'nosuch'")
    who.command("/mcp enable", "usage: /mcp enable NAME")
    _signing(who)


def _signing(who: Sitting) -> None:
    cast = who.cast
    who.command("/login nobody", "nobody")
    if cast.runs_login:
        who.command("/login", f"running `{cast.runs_login}`; it may open your browser")
        who.press("C-c")
        who.sees("interrupted")
    else:
        who.command("/login", cast.login)
    who.command("/logout", cast.logout)


def _of_sessions(who: Sitting) -> None:
    first = who.sessions()[0].id
    who.command("/sessions Hello", "Sessions with “Hello”", first)
    who.command("/sessions zebra", "nothing found")
    who.send("/sessions")
    who.sees("Sessions of ", "/ to search all messages")
    who.press("Escape")
    who.loses("/ to search all messages")
    who.command("/resume nosuch", "/sessions lists all sessions")
    who.send("/resume")
    who.sees("Sessions of ")
    who.press("Escape")
    who.loses("/ to search all messages")
    who.command("/fork", "Copied session", f"copy of {first}, which is unchanged")
    copy = who.sessions()[0].id
    assert copy != first
    who.command("/clear", "New session", f"the previous session is saved: /resume {copy}")
    who.loses("Copied session")
    who.command("/new", "3 new session")
    who.command(f"/new {who.cast.agent}", "4 new session")
    who.command(f"/resume {copy}", "Hello there.")
    who.loses("4 new session")  # it was empty
    who.command(f"/resume {first}")
    who.until(lambda screen: first in _status(screen))  # it has a tab already


# -- pickers, panels and tabs ----------------------------------------------------------------------


def choose(cast: Cast, folder: Path) -> None:
    """What opens by a key: pickers, the palette, tabs, the browser of sessions, MCP, next step."""
    _repository(cast)
    with sitting(cast, folder) as who:
        _next_step(who)
        who.play("hello")
        who.over(1, "Hello there.")
        _pickers(who)
        _servers(who)
        _tabs(who)
        _browser(who)
        _leaving(who)


def _repository(cast: Cast) -> None:
    """On `main`, with a file that nobody has committed."""
    git = ["git", "-C", str(cast.project), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (cast.project / "kept.txt").write_text("kept\n")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, env={**cast.environment})
    (cast.project / "kept.txt").write_text("changed\n")


def _next_step(who: Sitting) -> None:
    who.sees("› main › DIRTY", "[Commit & Push]")
    who.press("F2")
    who.sees("· main ─", " n  cancel")
    who.press("n")
    who.loses(" n  cancel")
    assert not who.entries()


def _pickers(who: Sitting) -> None:
    cast = who.cast
    who.press("C-g")
    who.sees("Agents", f"● {cast.agent}")
    who.type("codex-e")
    who.until(lambda screen: "codex-exec" in screen and f"● {cast.agent}" not in screen)
    who.press("Escape")
    who.loses("type to filter", "Agents ─")
    who.press("C-o")
    who.sees(f"Models of {cast.agent} ─", cast.model)
    who.type(cast.model)
    who.until(lambda screen: screen.count(cast.model) > 1)
    who.press("Enter")
    who.sees(f"Model: {cast.model}", "applies from the next prompt")
    who.until(lambda screen: cast.model in _status(screen))
    who.press("F5")
    who.sees("─ Mode ", "● agent")
    who.press("Down", "Enter")
    who.sees("Mode: plan")
    who.until(lambda screen: "plan" in _status(screen))
    who.press("F5")
    who.sees("─ Mode ", "● plan")
    who.press("Up", "Enter")
    who.sees("Mode: agent")
    who.until(lambda screen: "plan" not in _status(screen))
    who.press("F8")
    who.sees("─ Themes ", "type to filter")
    who.type("gruvb")
    who.until(lambda screen: "gruvbox" in screen and "nord" not in screen)
    who.press("Enter")
    who.loses("─ Themes ")
    config = find_paths(cast.environment).config_file
    who.until(lambda _: 'theme = "gruvbox"' in config.read_text() if config.exists() else False)
    settings = [one.model for one in who.all(SettingsChanged) if one.model]
    assert settings[-1] == cast.model


def _servers(who: Sitting) -> None:
    agent, server = who.cast.agent, who.cast.server
    who.press("F4")
    who.sees(f"MCP servers of {agent} ─")
    if server is None:
        who.sees("does not support")
        who.press("Escape")
        who.loses(f"MCP servers of {agent} ─")
        return
    who.sees(server)
    who.press("Enter")
    who.sees(who.cast.tools)
    who.press("d")
    who.sees(f"{agent} does not use {server}" if who.cast.switches else "does not support")
    who.press("e")
    who.sees(f"{agent} uses {server}" if who.cast.switches else "does not support")
    if not who.cast.switches:  # it asks again by itself
        who.press("r")
        who.loses("does not support", "querying …")
        who.sees(server)
    who.press("Escape")
    who.loses(f"MCP servers of {agent} ─")
    who.command("/mcp list", server)


def _tabs(who: Sitting) -> None:
    first = who.sessions()[0].id
    who.press("C-t")
    who.sees("2 new session")
    who.until(lambda screen: first not in _status(screen))
    who.write("some words")
    who.press("C-w")  # one word, and not the tab
    who.boxed("some")
    who.press("C-PPage")
    who.until(lambda screen: first in _status(screen))
    who.boxed("")
    who.press("C-NPage")
    who.boxed("some")
    who.press("M-1")
    who.until(lambda screen: first in _status(screen))
    who.press("M-2")
    who.boxed("some")
    who.erase()
    who.press("C-w")
    who.loses("2 new session")
    who.until(lambda screen: first in _status(screen))
    who.press("C-p")
    who.sees("Search for commands")
    who.type("new tab")
    who.sees("start a new session in a new tab")
    who.press("Enter")
    who.sees("2 new session")
    who.press("C-w")
    who.loses("2 new session")


def _browser(who: Sitting) -> None:
    project = who.cast.project
    both = r"Sessions of (.*\n)+.*Renamed by hand(.*\n)+.*Renamed by hand +here"  # the copy first
    (first,) = who.sessions()
    who.press("C-l")
    who.sees("Sessions of ", "here")
    who.press("d")
    who.sees("it is open in a tab: close the tab first")
    who.press("r")
    who.sees("title: ")
    who.press("C-u")
    who.type("Renamed by hand")
    who.press("Enter")
    who.until(_Found(r"Renamed by hand +here"))
    assert who.sessions()[0].title == "Renamed by hand"
    who.press("e")
    who.sees("export as markdown, html, jsonl: ")
    who.press("Enter")
    who.sees(f"session-{first.id}.md")
    assert "Hello there." in (project / f"session-{first.id}.md").read_text()
    who.press("/")
    who.type("zebra")
    who.sees("nothing found")
    who.press("Escape")
    who.sees("Renamed by hand")
    who.press("/")
    who.type("hello there")
    who.sees("hello there", "Hello there")
    who.press("Escape")
    who.sees("/ to search all messages")
    who.press("a")
    who.sees("Sessions of all folders", "project › Renamed")
    who.press("f")
    who.loses("Sessions of all folders")
    who.sees("2 ")
    copy = who.sessions()[0]
    assert copy.id != first.id
    who.until(lambda screen: copy.id in _status(screen))
    who.press("C-w")
    who.until(lambda screen: first.id in _status(screen))
    who.press("C-l")
    who.until(_Found(both))
    who.press("Enter")  # the newest is the copy
    who.until(lambda screen: copy.id in _status(screen))
    who.press("C-w")
    who.until(lambda screen: first.id in _status(screen))
    who.press("C-l")
    who.until(_Found(both))
    who.press("d")
    who.sees("y or n:")
    who.type("n")
    who.press("Enter")
    who.sees("nothing was deleted")
    who.press("d")
    who.sees("y or n:")
    who.type("y")
    who.press("Enter")
    who.sees(f"deleted {copy.id}")
    assert [row.id for row in who.sessions()] == [first.id]
    who.press("Escape")
    who.loses("Sessions of ")


def _leaving(who: Sitting) -> None:
    who.play("wait", "[y] allow")
    who.press("y")
    who.until(_works)
    who.press("C-w")
    who.sees("Close the tab?", "cancel and close")
    who.press("n")
    who.loses("Close the tab?")
    who.press("F3")
    who.sees("The branch has no known pull request.")
    who.press("C-q")
    who.sees("Quit?", "The agent is still working", "cancel and quit")
    who.press("n")
    who.loses("Quit?")
    who.press("C-q")
    who.sees("Quit?")
    who.press("y")
    assert who.terminal.ended() == 0
    assert who.all(TurnEnded)[-1].reason == "cancelled"
