"""Regenerates the golden events of all ACP recordings: `python -m tests.agents.acp.regenerate_acp`.

Review the diff line by line.
"""

from tests.agents.acp.acp_playback import encoded, play, recordings

for recording in recordings():
    (recording / "events.jsonl").write_text(encoded(play(recording)))
