"""Approval presets of a session: the /approve picker and the key that cycles through them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tillerman.core.agent import Mode
from tillerman.core.capabilities import capabilities
from tillerman.core.errors import Unsupported
from tillerman.core.session_options import Preset
from tillerman.surfaces.tui.commands.command import agent_of, channel_of, refuse_while_busy
from tillerman.surfaces.tui.dialogs.picker import Picker, PickerRow

if TYPE_CHECKING:
    from tillerman.surfaces.tui.session_pane import SessionPane

PLAN = "plan"  # a mode rather than a preset: no changes before the plan is approved
WORDS = {
    "ask": "reads run, everything else needs approval",
    "edits": "reads and edits in the workspace run, everything else needs approval",
    "auto": "everything runs unless a guard or a rule denies it",
    PLAN: "reads and plans; after you approve the plan, changes need approval",
    "readonly": "only reads are allowed",
    "none": "no tool is allowed",
}
ROUND = ("ask", "edits", "auto", PLAN)
MAX_WAIT = 2.0  # seconds until the log reports the change


class ApprovalPicker(Picker):
    def __init__(self, current: str, *, plans: bool) -> None:
        rows = [
            PickerRow(word, word, hint=meaning, current=word == current)
            for word, meaning in WORDS.items()
            if plans or word != PLAN
        ]
        super().__init__("Approval", rows, filtered=False)


def current(pane: SessionPane) -> str:
    standing = pane.standing()
    return PLAN if standing.mode == PLAN else standing.approve


def plans(pane: SessionPane) -> bool:
    """Whether the agent supports modes."""
    return "modes" in capabilities(channel_of(pane).harness.agent(agent_of(pane)))


async def choose_next(pane: SessionPane) -> None:
    """Cycles to the next preset. Uses the last choice if the log does not report it yet."""
    async with pane.choosing:
        words = [word for word in ROUND if word != PLAN or plans(pane)]
        now = _just_chosen(pane) or current(pane)
        after = words.index(now) + 1 if now in words else 0
        await _choose(pane, words[after % len(words)])


def _just_chosen(pane: SessionPane) -> str | None:
    word, at = pane.chosen
    return word if time.monotonic() < at + MAX_WAIT else None


async def choose(pane: SessionPane, word: str) -> None:
    async with pane.choosing:
        await _choose(pane, word)


async def _choose(pane: SessionPane, word: str) -> None:
    preset: Preset = "ask" if word == PLAN else word  # type: ignore[assignment]
    mode: Mode | None = "plan" if word == PLAN else "agent"
    mode = None if mode == (pane.standing().mode or "agent") else mode
    channel = channel_of(pane)
    try:
        await channel.configure(approve=preset, mode=mode)
    except Unsupported:  # the agent accepts it only at start
        refuse_while_busy(pane)
        await channel.close()
        await channel.configure(approve=preset, mode=mode)
    pane.chosen = (word, time.monotonic())
    pane.post_message(pane.Changed(pane))
