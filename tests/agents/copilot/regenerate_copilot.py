"""Writes `events.jsonl` beside each recording of Copilot's JSON lines, and for ACP's talks.

Read the difference before you commit it: a golden file says what is right, not what happens.
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
