"""Writes `events.jsonl` beside each recording: `python -m tests.agents.claude.regenerate`.

Read the difference before you commit it: a golden file says what is right, not what happens.
"""

from __future__ import annotations

from tests.agents.claude.claude_playback import encoded, lines, play, recordings

if __name__ == "__main__":
    for recording in recordings():
        (recording / "events.jsonl").write_text(encoded(play(lines(recording))))
