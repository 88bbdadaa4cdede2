"""Writes `events.jsonl` beside each recording of Copilot's JSON lines.

Read the difference before you commit it: a golden file says what is right, not what happens.
"""

from __future__ import annotations

from copilot_playback import encoded, play, recordings

if __name__ == "__main__":
    for recording in recordings("json"):
        (recording / "events.jsonl").write_text(encoded(play(recording)))
