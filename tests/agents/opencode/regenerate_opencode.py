"""Writes `events.jsonl` beside each recording of OpenCode's `run` and `serve`, and for ACP's talks.

Read the difference before you commit it: a golden file says what is right, not what happens.
"""

from __future__ import annotations

from opencode_playback import RECORDINGS, encoded, play_run, play_serve, recordings
from test_opencode_acp import TALKS, play

if __name__ == "__main__":
    for surface, player in (("run", play_run), ("serve", play_serve)):
        for recording in recordings(surface):
            (recording / "events.jsonl").write_text(encoded(player(recording)))
    for talk in TALKS:
        golden = RECORDINGS / "acp" / f"{talk.name}.events.jsonl"
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(encoded(play(talk.name)))
