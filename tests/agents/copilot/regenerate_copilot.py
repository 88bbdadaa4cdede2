"""Regenerates `events.jsonl` beside each recording of Copilot's JSON lines, and of its ACP.

Review the diff before you commit it: a golden file defines what is correct.
"""

from __future__ import annotations

from tests.agents.copilot.copilot_playback import RECORDINGS, encoded, recordings
from tests.agents.copilot.copilot_playback import play as play_lines
from tests.agents.copilot.test_copilot_acp import TALKS, play

if __name__ == "__main__":
    for recording in recordings("json"):
        (recording / "events.jsonl").write_text(encoded(play_lines(recording)))
    for talk in TALKS:
        (RECORDINGS / "acp" / f"{talk.name}.events.jsonl").write_text(encoded(play(talk)))
