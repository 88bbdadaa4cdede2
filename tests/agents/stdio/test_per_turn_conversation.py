"""A process for each turn: a failed start ends the turn, and temporary files are removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.agents.listening import listening
from tests.agents.plain import ASKS, PerTurnWire, shell
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import AgentInfo, Exit, Prompt, SessionSpec
from tillerman.core.errors import AgentError
from tillerman.core.events import TurnEnded
from tillerman.core.failure import Failure
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Launch, TemporaryFile
from tillerman.testing.test_host import PlainHost

DONE = TurnEnded(reason="completed")
SAY_ALL = """printf '{"say": "%s"}\\n{"end": "completed"}\\n' "$(cat -; cat lent 2>/dev/null)" """


class Lending(PerTurnWire):
    """Places a file, and explains one exit."""

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        launch = super().launch(spec, prompt)
        instead = spec.native.options.get("instead")
        return Launch(
            launch.argv,
            stdin=launch.stdin,
            places=[TemporaryFile(spec.cwd / "lent", b" lent", instead)],
        )

    def explain(self, exit: Exit, stderr: str) -> Failure | None:
        return Failure(kind="billing", message=stderr.strip()) if exit.code == 7 else None


AGENT = StdioAgent(
    AgentInfo("lending", "Lending", frozenset({"resume"}), asks=ASKS), Lending, grace=0.5
)


def spec(command: str, cwd: Path, **options: object) -> SessionSpec:
    plain = shell(command, cwd)
    return session_spec(cwd=cwd, options={**plain.native.options, **options})


async def test_a_placed_file_exists_during_each_turn_alone(host: PlainHost, project: Path) -> None:
    async with listening(AGENT, spec(SAY_ALL, project), host) as agent:
        for words in ("one", "two"):
            assert (await agent.turn(words))[-1] == DONE
            assert not (project / "lent").exists()
        assert agent.text == "one lenttwo lent"


async def test_where_a_file_is_accepted_its_text_part_precedes_it(
    host: PlainHost, project: Path
) -> None:
    (project / "lent").write_text(" own")
    async with listening(AGENT, spec(SAY_ALL, project, instead=b"instead "), host) as agent:
        await agent.turn("one")
        assert agent.text == "instead one own"
    assert (project / "lent").read_text() == " own"


async def test_without_a_way_to_mention_a_file_the_prompt_is_refused(
    host: PlainHost, project: Path
) -> None:
    (project / "lent").write_text(" own")
    async with listening(AGENT, spec(SAY_ALL, project), host) as agent:
        with pytest.raises(AgentError, match="needs to create a file that already exists"):
            agent.conversation.prompt(Prompt("one"))
        assert agent.events == []


async def test_the_exit_reason_reported_by_a_program_is_used(
    host: PlainHost, project: Path
) -> None:
    command = """echo "no money" >&2; exit 7"""
    async with listening(AGENT, spec(command, project), host) as agent:
        failure = Failure(kind="billing", message="no money")
        assert (await agent.turn("one"))[-1] == TurnEnded(reason="failed", failure=failure)


async def test_a_program_that_cannot_start_fails_its_turn_and_leaves_nothing(
    host: PlainHost, project: Path
) -> None:
    gone = project / "gone"
    gone.mkdir()
    async with listening(AGENT, spec(SAY_ALL, gone, instead=b""), host) as agent:
        shutil.rmtree(gone)
        failure = Failure(
            kind="agent_failed",
            message=f"the agent could not be started: No such file or directory: {gone}",
            hint="run `tillerman doctor`",
        )
        assert await agent.turn("one") == [TurnEnded(reason="failed", failure=failure)]
        gone.mkdir()
        assert (await agent.turn("two"))[-1] == DONE
    assert list(gone.iterdir()) == []


async def test_a_lost_warden_fails_the_turn(host: PlainHost, project: Path) -> None:
    async with listening(AGENT, spec(SAY_ALL, project, instead=b""), host) as agent:
        await host._warden.close()
        [end] = await agent.turn("one")
        assert isinstance(end, TurnEnded)
        assert end.failure is not None
        assert end.failure.message.startswith(
            "the agent could not be started: the warden has ended"
        )
