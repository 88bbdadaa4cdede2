"""Writes `events.jsonl` beside each recording: `python -m tests.agents.qwen.regenerate_qwen`.

Read the difference before you commit it: a golden file says what is right, not what happens.
"""

from __future__ import annotations

from tests.agents.qwen.qwen_playback import encoded, play, recordings

if __name__ == "__main__":
    for recording in recordings():
        (recording / "events.jsonl").write_text(encoded(play(recording)))
