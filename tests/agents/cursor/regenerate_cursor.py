"""Regenerates `events.jsonl` beside each recording: `python -m
tests.agents.cursor.regenerate_cursor`.

Review the diff before you commit it: a golden file defines what is correct.
"""

from __future__ import annotations

from tests.agents.cursor.cursor_playback import encoded, received, recordings

if __name__ == "__main__":
    for recording in recordings():
        (recording / "events.jsonl").write_bytes(encoded(received(recording)))
