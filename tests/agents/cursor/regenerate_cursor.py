"""Writes `events.jsonl` beside each recording: `python -m tests.agents.cursor.regenerate_cursor`.

Read the difference before you commit it: a golden file says what is right, not what happens.
"""

from __future__ import annotations

from tests.agents.cursor.cursor_playback import encoded, received, recordings

if __name__ == "__main__":
    for recording in recordings():
        (recording / "events.jsonl").write_bytes(encoded(received(recording)))
