"""ACP agents conform to the port."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.agents.acp.acp_far_side import ROW, far_side
from tests.agents.acp.acp_playback import (
    OPENS,
    RECORDINGS,
    Player,
    agent_of,
    lines,
    name,
    recordings,
)
from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.acp.rows.agent_rows import rows
from tillerman.testing.conformance import check_agent


def _one_turn(recording: Path) -> bool:
    messages = [one["msg"].get("method") for one in lines(recording) if one["dir"] == "out"]
    opened = [method for method in messages if method in OPENS]
    return opened == ["session/new"] and messages.count("session/prompt") == 1


ONE_TURN = [recording for recording in recordings() if _one_turn(recording)]


@pytest.mark.parametrize("agent", sorted({recording.parent.name for recording in ONE_TURN}))
def test_an_agent_with_its_recordings_conforms(agent: str, tmp_path: Path) -> None:
    """The lines have the ids of our wire's own requests."""
    chosen = [recording for recording in ONE_TURN if recording.parent.name == agent]
    for recording in chosen[:6]:
        player = Player(agent_of(recording), lines(recording))
        player.play()
        folder = tmp_path / recording.name
        folder.mkdir()
        (folder / "wire.jsonl").write_bytes(b"\n".join(player.heard_lines))
    check_agent(agent_of(chosen[0]), tmp_path, cuts=4, streams=40, far_side=far_side)


@pytest.mark.parametrize("row", rows().values(), ids=lambda row: row.name)
def test_a_row_declares_only_what_its_wire_supports(row: AcpAgentRow) -> None:
    check_agent(AcpAgent(row), streams=0, far_side=far_side)


@pytest.mark.parametrize("flags", [{"model_flag": "-m"}, {"folder_flag": "--add-dir"}])
def test_the_first_messages_are_sent_to_the_program_too(flags: dict[str, str]) -> None:
    row = replace(ROW, can=frozenset({"folders", "fork"}), **flags)
    check_agent(AcpAgent(row), streams=0, far_side=far_side)


def test_recordings_of_most_agents_have_one_turn() -> None:
    assert {name(recording).split("/")[0] for recording in ONE_TURN} >= {
        "claude-agent-acp", "codex-acp", "copilot", "opencode",
    }  # fmt: skip
    assert (RECORDINGS / "claude-agent-acp" / "hello") in ONE_TURN
