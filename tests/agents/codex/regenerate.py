"""Writes `events.jsonl` beside each recording: `python -m tests.agents.codex.regenerate`.

Read the difference before you commit it: a golden file says what is right, not what happens.
"""

from __future__ import annotations

from tests.agents.codex.codex_playback import encoded, received, recordings

if __name__ == "__main__":
    for surface in ("app-server", "exec"):
        for recording in recordings(surface):
            (recording / "events.jsonl").write_text(encoded(received(recording)))
