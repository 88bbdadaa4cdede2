"""Regenerates the recordings of the mock's scripts: `python -m
tests.agents.mock.regenerate_mock`."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from tests import RECORDINGS
from tests.agents.listening import listening
from tillerman.agents.mock import agent
from tillerman.core.events import Answer, BackgroundChanged, TurnEnded, encode
from tillerman.core.session_options import session_spec
from tillerman.testing.recording_player import listener
from tillerman.testing.test_host import PlainHost

MOCK = RECORDINGS / "mock"
SCRIPTS = (
    "demo", "permission", "parallel", "question", "subagent", "background", "fail", "unknown",
    "crash",
)  # fmt: skip


async def record(script: str, folder: Path) -> list[bytes]:
    project = folder / "project"
    project.mkdir()
    spec = session_spec(cwd=project, options={"script": script, "pace": 0})
    answer = Answer("allow", answers={"Which colour do you like?": "red"})
    async with (
        PlainHost.open(folder) as host,
        listening(agent, spec, host, answer=answer) as mock,
    ):
        await mock.turn("show me")
        if mock.of(BackgroundChanged):
            await mock.until(lambda: len(mock.of(TurnEnded)) == 2)
        return [received.raw for received in mock.received if received.raw]


def main() -> None:
    shutil.rmtree(MOCK, ignore_errors=True)
    for script in SCRIPTS:
        with tempfile.TemporaryDirectory() as folder:
            lines = asyncio.run(record(script, Path(folder)))
        wire = listener(agent)
        messages = [encode(one) for line in lines for one in wire.decode(line)]
        target = MOCK / script
        target.mkdir(parents=True)
        (target / "wire.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        (target / "events.jsonl").write_bytes(b"\n".join(messages) + b"\n")


if __name__ == "__main__":
    main()
