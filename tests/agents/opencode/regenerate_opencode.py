"""Writes `events.jsonl` beside each recording of OpenCode's `run` and `serve`.

Read the difference before you commit it: a golden file says what is right, not what happens.
"""

from __future__ import annotations

from opencode_playback import encoded, play_run, play_serve, recordings

if __name__ == "__main__":
    for surface, play in (("run", play_run), ("serve", play_serve)):
        for recording in recordings(surface):
            (recording / "events.jsonl").write_text(encoded(play(recording)))
