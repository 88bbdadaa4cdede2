"""A tour of prompts and requests in the terminal interface, for any agent, on a real terminal.

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
from pathlib import Path

from tests.stand_ins.screen_sitting import (
    SHIFT_ENTER,
    WAIT,
    WHOLE,
    Cast,
    Found,
    Sitting,
    quit,
    sitting,
    status_line,
    works,
)
from tillerman.core.events import RequestAnswered, TurnEnded, TurnStarted

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
    who.until(works)
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
    who.until(works)
    who.press("Escape")
    who.over(turns + 3, "⊘ cancelled ·")
    assert who.all(TurnEnded)[-1].reason == "cancelled"


def _conversation(who: Sitting) -> None:
    folded, unfolded = (Found(f"⊘ .*sleep 0.05.* {mark}") for mark in "▸▾")
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
    who.until(Found(rf"\A(?: .*\n)?▌ {re.escape(who.cast.scene('hello'))}"))
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
    """Permissions: allowed, denied, denied with a note, changed, remembered; a question; a plan."""
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
    who.press("Escape")  # back to the question; the turn continues
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
    who.over(6)  # and no request was shown
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
    who.until(lambda screen: "plan" in status_line(screen))
    who.play("write")
    who.over(turns + 1)
    assert not (who.cast.project / "new.txt").exists()
    who.command("/mode agent", "Mode: agent")
    who.until(lambda screen: "plan" not in status_line(screen))
    who.play("write", "[y] allow", "1+ moon")
    who.press("y")
    who.over(turns + 2, "+ moon")
    assert (who.cast.project / "new.txt").read_text() == "moon\n"
