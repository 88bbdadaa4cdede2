"""One sitting before the screen: all that was said is seen, and what is approved, before it is.

Beside those of `screen_tour`, these scenes are played:

- `words` says WORDS;
- `edit` replaces `line 40` by `changed` in `poem.txt`, and says `That was it.`;
- `plan` presents PLAN, then writes `moon` to `new.txt`, and says `That was it.`
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

from tests.stand_ins.screen_sitting import Cast, Sitting, sitting
from tillerman.core.events import TurnEnded
from tillerman.surfaces.tui.dialogs.request_prompt import GRACE
from tillerman.testing.terminal import Tmux

WORDS = (
    "Use Vec<u8>, type <Tab> then <Enter>.\nroses\nviolets\n\n"
    "<details><summary>more</summary>hidden words</details>\n\n[1]: http://e.com/x\n"
)
SHOWN = (
    "Use Vec<u8>, type <Tab> then <Enter>.",
    "<details><summary>more</summary>hidden words</details>",
    "[1]: http://e.com/x",
)
PLAN = "# The plan\n\n1. Use **Vec<u8>**\n2. Type <Tab>\n"


def approve(cast: Cast, folder: Path) -> None:
    poem = cast.project / "poem.txt"
    poem.write_text("".join(f"line {number}\n" for number in range(1, 61)))
    with sitting(cast, folder) as who:
        who.play("words")
        screen = who.over(1, *SHOWN)
        lines = [line.strip() for line in screen.splitlines()]
        assert lines[lines.index("roses") + 1] == "violets"
        _round(who)
        _edit(who, poem)
        _leave(who)
        _plan(who)
        who.press("C-q")
        assert who.terminal.ended() == 0
    _elsewhere(cast, folder)


def _round(who: Sitting) -> None:
    """From asking to planning, and back."""
    who.sees("approve ask")
    for seen in ("approve edits", "approve auto", "plan · approve ask", "agent · approve ask"):
        who.press("BTab")
        who.sees(seen)


def _edit(who: Sitting, poem: Path) -> None:
    who.play("edit", "[y] allow", "37  line 37", "40- line 40", "40+ changed", "43  line 43")
    who.press("?")
    who.sees("[?] less")
    who.press("Escape")  # leaves the full view; the turn continues
    who.sees("40+ changed", "[?] details")
    assert "line 40\n" in poem.read_text()
    who.press("w")
    who.over(2, "That was it.", "approve edits")
    assert poem.read_text().splitlines()[39] == "changed"


def _leave(who: Sitting) -> None:
    """The conversation is closed with Escape, and the turn continues."""
    who.play("wait", "working")  # it only writes in the workspace, as the preset allows
    who.press("Tab")
    who.sees("Unfold", "esc Back")
    who.press("Up", "Escape")
    who.sees("Queue")
    (who.cast.project / "go").touch()
    who.over(3, "The wait is over.")
    assert [end.reason for end in who.all(TurnEnded)] == ["completed"] * 3


def _plan(who: Sitting) -> None:
    if not who.cast.plans:
        return
    who.command("/approve plan", "Approval: plan", "plan · approve ask")
    who.play(
        "plan", "[y] allow", "1. Use Vec<u8>", "2. Type <Tab>", "Then it continues in agent mode"
    )
    assert '"plan"' not in who.terminal.screen
    who.press("y")
    who.sees("agent · approve ask", "1+ moon", "[y] allow")
    time.sleep(GRACE)  # it is read
    who.press("y")
    who.over(4, "That was it.")
    assert (who.cast.project / "new.txt").read_text() == "moon\n"


def _elsewhere(cast: Cast, folder: Path) -> None:
    """The same text by `sessions show` and `run`; and a start without an agent named."""
    program = [sys.executable, "-m", "tillerman"]
    for words in (
        ["sessions", "show", "last"],
        ["run", "-a", cast.agent, "--approve", "ask", cast.scene("words")],
    ):
        # tmux forgets the screen of a program that ends
        stays = ["sh", "-c", f"{shlex.join([*program, *words])}; exec sleep 60"]
        with Tmux(folder, 100, 150) as terminal:
            terminal.run(stays, cast.environment, cast.project)
            terminal.until(lambda screen: all(one in screen for one in SHOWN), cast.max_wait)
    with Tmux(folder, 100, 40) as terminal:
        terminal.run(program, cast.environment, cast.project)
        if cast.agent == "mock":  # who did not ask for it does not get it
            terminal.until("No agent is ready yet.", cast.max_wait)
            terminal.until("until then, /agent mock uses the built-in demo agent", cast.max_wait)
        else:
            terminal.until(f"{cast.agent} works in", cast.max_wait)
        terminal.press("C-q")
        assert terminal.ended() == 0
