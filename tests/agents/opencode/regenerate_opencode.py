"""Regenerates `events.jsonl` beside each recording of `opencode run` and of ACP.

Review the diff before you commit it: a golden file defines what is correct.
"""

from __future__ import annotations

from tests.agents.opencode.opencode_playback import RECORDINGS, encoded, play_run, recordings
from tests.agents.opencode.test_opencode_acp import TALKS, play

if __name__ == "__main__":
    for recording in recordings("run"):
        (recording / "events.jsonl").write_text(encoded(play_run(recording)))
    for talk in TALKS:
        golden = RECORDINGS / "acp" / f"{talk.name}.events.jsonl"
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(encoded(play(talk.name)))
