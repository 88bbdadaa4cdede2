"""Regenerates `events.jsonl` beside each recording: `python -m
tests.agents.gemini.regenerate_gemini`.

Review the diff before you commit it: a golden file defines what is correct.
"""

from __future__ import annotations

from tests.agents.gemini.gemini_playback import encoded, play, recordings

if __name__ == "__main__":
    for recording in recordings():
        (recording / "events.jsonl").write_text(encoded(play(recording)))
