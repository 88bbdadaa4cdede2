"""Regenerates `events.jsonl` beside each recording: `python -m tests.agents.codex.regenerate`.

Review the diff before you commit it: a golden file defines what is correct.
"""

from __future__ import annotations

from tests.agents.codex.codex_playback import encoded, received, recordings

if __name__ == "__main__":
    for surface in ("app-server", "exec"):
        for recording in recordings(surface):
            (recording / "events.jsonl").write_text(encoded(received(recording)))
