"""The mock: a real child process, in all its behaviours and faults."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.agents.listening import listening
from tillerman.agents.mock import agent
from tillerman.agents.mock.wire import CHILD
from tillerman.core.agent import File, Prompt
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Answer,
    BackgroundChanged,
    BackgroundTask,
    Choice,
    Diff,
    MessageChunk,
    Notice,
    PermissionRequested,
    PlanChanged,
    Question,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
)
from tillerman.core.failure import Failure, FailureKind
from tillerman.core.session_options import session_spec
from tillerman.testing.test_host import PlainHost

ALLOW = Answer("allow")
DONE = TurnEnded(reason="completed")


def steps(*steps: dict[str, Any]) -> str:
    return json.dumps(steps)


def used(events: list[Any]) -> list[Any]:
    return [event for event in events if not isinstance(event, UsageReported)]


async def test_it_streams_text_and_thoughts_and_counts_them(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(steps({"think": "so so"}, {"say": "hello you"}))
        ready = mock.events[1]
        assert isinstance(ready, AgentReady)
        prompt_words = len(steps({"think": "so so"}, {"say": "hello you"}).split())
        assert mock.events[0] == AgentStarted(agent="mock", supervision=host.level)
        assert ready == AgentReady(native_id=ready.native_id, model="mock-quick")
        assert [event for event in turn if event not in mock.events[:2]] == [
            ThoughtChunk(message_id="m1.1", text="so "),
            ThoughtChunk(message_id="m1.1", text="so"),
            MessageChunk(message_id="m1.2", text="hello "),
            MessageChunk(message_id="m1.2", text="you"),
            UsageReported(
                input_tokens=prompt_words,
                output_tokens=4,
                cost_usd=(prompt_words + 20) / 1_000_000,
            ),
            DONE,
        ]
    assert mock.events[-1] == AgentExited(code=0)


async def test_the_demo_really_writes_changes_and_runs_a_program(
    host: PlainHost, project: Path
) -> None:
    spec = session_spec(cwd=project, options={"pace": 0})
    async with listening(agent, spec, host, answer=ALLOW) as mock:
        await mock.turn("show me something")
        greeting = (project / "greet.py").read_text()
        assert greeting == 'name = "world"\nprint("Good morning,", name)\n'
        ran = mock.of(ToolFinished)[-1]
        assert isinstance(ran, ToolFinished)
        assert ran == ToolFinished(
            call_id=ran.call_id, outcome="completed", content=(Text("Good morning, world\n"),)
        )
        assert "```sh\npython3 greet.py\n```" in mock.text
        assert not mock.of(Unrecognized)
        assert mock.events[-1] == DONE
        await mock.turn("and now?")
        assert "You asked before: *show me something*" in mock.text


async def test_the_demo_accepts_a_denial(host: PlainHost, project: Path) -> None:
    spec = session_spec(cwd=project, options={"pace": 0})
    async with listening(agent, spec, host, answer=Answer("deny")) as mock:
        await mock.turn("show me something")
        assert mock.text.endswith("so there is nothing to run.")
        assert mock.events[-1] == DONE
    assert list(project.iterdir()) == []


async def test_an_allowed_write_happens_and_shows_its_diff(host: PlainHost, project: Path) -> None:
    input = {"path": "a.txt", "text": "new\n"}
    (project / "a.txt").write_text("old\n")
    async with listening(agent, session_spec(cwd=project), host, answer=ALLOW) as mock:
        turn = await mock.turn(steps({"write": "a.txt", "text": "new\n", "reason": "a test"}))
        asked = PermissionRequested(
            request_id="r1.2",
            tool="Write",
            title="Write `a.txt`",
            input=input,
            paths=("a.txt",),
            call_id="c1.1",
            reason="a test",
        )
        assert used(turn)[-4:] == [
            ToolStarted(
                call_id="c1.1",
                tool="Write",
                name="write",
                title="Write `a.txt`",
                input=input,
                paths=("a.txt",),
            ),
            asked,
            ToolFinished(
                call_id="c1.1",
                outcome="completed",
                content=(Diff("a.txt", old="old\n", new="new\n"),),
            ),
            DONE,
        ]
    assert (project / "a.txt").read_text() == "new\n"


async def test_a_denied_command_does_not_run_and_its_note_is_received(
    host: PlainHost, project: Path
) -> None:
    deny = Answer("deny", note="not today")
    async with listening(agent, session_spec(cwd=project), host, answer=deny) as mock:
        await mock.turn(steps({"run": "touch ran"}, {"say": "{answer}"}))
        assert mock.of(ToolFinished) == [
            ToolFinished(call_id="c1.1", outcome="denied", content=(Text("not today"),))
        ]
        assert mock.text == "not today"
    assert not (project / "ran").exists()


async def test_changed_input_is_executed(host: PlainHost, project: Path) -> None:
    answer = Answer("allow", input={"path": "b.txt"})
    async with listening(agent, session_spec(cwd=project), host, answer=answer) as mock:
        await mock.turn(steps({"write": "a.txt", "text": "x"}))
    assert [path.name for path in project.iterdir()] == ["b.txt"]


async def test_it_offers_the_options_of_its_script_and_follows_the_chosen_one(
    host: PlainHost, project: Path
) -> None:
    options = [
        {"id": "yes", "label": "Yes", "kind": "allow"},
        {"id": "ever", "label": "Ever", "kind": "always"},
        {"id": "no", "label": "No", "kind": "deny"},
    ]
    for chosen, outcome in [("yes", "completed"), ("ever", "completed"), ("no", "denied")]:
        async with listening(agent, session_spec(cwd=project), host, answer=Answer(chosen)) as mock:
            await mock.turn(steps({"write": "a", "text": "", "options": options}))
            (asked,) = mock.of(PermissionRequested)
            (finished,) = mock.of(ToolFinished)
            assert isinstance(asked, PermissionRequested)
            assert isinstance(finished, ToolFinished)
            assert [option.id for option in asked.options] == ["yes", "ever", "no"]
            assert finished.outcome == outcome


async def test_it_withdraws_an_unanswered_request(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(steps({"run": "touch ran", "withdraw": 0.05}))
        assert used(turn)[-3:] == [
            RequestAnswered(request_id="r1.2", answer=Answer("deny"), by="withdrawn"),
            ToolFinished(call_id="c1.1", outcome="denied"),
            DONE,
        ]


async def test_parallel_requests_are_open_together_and_answered_in_any_order(
    host: PlainHost, project: Path
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.conversation.prompt(Prompt("script:parallel"))
        await mock.until(lambda: len(mock.of(PermissionRequested)) == 3)
        for request_id in ("r1.6", "r1.4", "r1.2"):
            await mock.conversation.answer(request_id, ALLOW)
        await mock.until(lambda: mock.of(TurnEnded))
        assert [event.outcome for event in mock.of(ToolFinished)] == ["completed"] * 3  # type: ignore[attr-defined]
    assert sorted(path.name for path in project.iterdir()) == ["one.txt", "two.txt"]


async def test_a_failing_command_fails_its_call_and_not_the_turn(
    host: PlainHost, project: Path
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(
            steps(
                {"run": "echo out; exit 3", "ask": False},
                {"read": "nothing"},
                {"edit": "nothing", "old": "a", "new": "b", "ask": False},
            )
        )
        assert [event for event in turn if isinstance(event, ToolUpdated | ToolFinished)] == [
            ToolUpdated(call_id="c1.1", content=(Text("out\n"),)),
            ToolFinished(call_id="c1.1", outcome="failed", content=(Text("out\n\nexit code 3"),)),
            ToolFinished(
                call_id="c1.2",
                outcome="failed",
                content=(Text("[Errno 2] No such file or directory: 'nothing'"),),
            ),
            ToolFinished(
                call_id="c1.3",
                outcome="failed",
                content=(Text("nothing: the text to replace was not found"),),
            ),
        ]
        assert turn[-1] == DONE


async def test_it_asks_questions(host: PlainHost, project: Path) -> None:
    answer = Answer("allow", answers={"Which colour do you like?": "blue"})
    async with listening(agent, session_spec(cwd=project), host, answer=answer) as mock:
        await mock.turn("script:question")
        assert mock.of(QuestionAsked) == [
            QuestionAsked(
                request_id="r1.1",
                questions=(
                    Question(
                        "Which colour do you like?",
                        header="Colour",
                        choices=(Choice("red"), Choice("blue", "like the sea")),
                    ),
                ),
            )
        ]
        assert mock.text == "You chose: blue"


async def test_a_subagents_messages_are_inside_its_call(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host, answer=ALLOW) as mock:
        turn = await mock.turn("script:subagent")
        inside = [event for event in turn if event.parent]
        assert {event.parent for event in inside} == {"c1.2"}
        assert {type(event) for event in inside} == {
            ThoughtChunk, ToolStarted, PermissionRequested, ToolUpdated, ToolFinished, MessageChunk,
        }  # fmt: skip


async def test_it_reports_a_plan_and_notices(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(
            steps({"plan": ["one", {"text": "two", "status": "completed"}]}, {"notice": "hm"})
        )
        (plan,) = mock.of(PlanChanged)
        assert isinstance(plan, PlanChanged)
        assert [(step.text, step.status) for step in plan.steps] == [
            ("one", "pending"),
            ("two", "completed"),
        ]
        assert Notice(level="info", kind="session", text="hm") in turn


async def test_background_work_starts_a_turn_of_its_own(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.conversation.prompt(Prompt("script:background"))
        await mock.until(lambda: len(mock.of(TurnEnded)) == 2)
        kinds = TurnStarted | TurnEnded | BackgroundChanged
        assert [event for event in mock.events if isinstance(event, kinds)] == [
            BackgroundChanged(tasks=(BackgroundTask("b1.1", "Wait for the kettle"),)),
            DONE,
            TurnStarted(origin="agent"),
            BackgroundChanged(tasks=()),
            DONE,
        ]
        assert mock.text.endswith("The kettle boils.")


async def test_an_interrupt_while_idle_drops_its_background_work(
    host: PlainHost, project: Path
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.turn(steps({"background": "wait", "after": 3600, "steps": []}))
        await mock.conversation.cancel()
        await mock.until(lambda: mock.events[-1] == BackgroundChanged(tasks=()))


async def test_messages_in_mid_turn_steer_it(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.conversation.prompt(Prompt("script:steer"))
        await mock.until(lambda: mock.text == "Which way?")
        await mock.conversation.steer(Prompt("left"))
        await mock.until(lambda: mock.of(TurnEnded))
        assert mock.text == "Which way?Going this way: left"


async def test_messages_not_read_by_the_turn_start_the_next_one(
    host: PlainHost, project: Path
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.conversation.prompt(Prompt(steps({"run": "true"})))
        await mock.until(lambda: mock.of(PermissionRequested))
        await mock.conversation.steer(Prompt(steps({"say": "later"})))
        await mock.conversation.answer("r1.2", ALLOW)
        await mock.until(lambda: len(mock.of(TurnEnded)) == 2)
        kinds = TurnStarted | TurnEnded | MessageChunk
        assert [event for event in mock.events if isinstance(event, kinds)] == [
            DONE,
            TurnStarted(origin="agent"),
            MessageChunk(message_id="m2.1", text="later"),
            DONE,
        ]
        raws = [received.raw for received in mock.received]
        assert b'{"type":"took_up"}' in raws


async def test_cancel_drops_messages_the_turn_did_not_read(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.conversation.prompt(Prompt(steps({"run": "true"})))
        await mock.until(lambda: mock.of(PermissionRequested))
        await mock.conversation.steer(Prompt(steps({"run": "touch ran", "ask": False})))
        await mock.conversation.cancel()
        await mock.turn(steps({"say": "next"}))
        kinds = TurnStarted | TurnEnded | MessageChunk
        assert [event for event in mock.events if isinstance(event, kinds)] == [
            TurnEnded(reason="cancelled"),
            MessageChunk(message_id="m2.1", text="next"),
            DONE,
        ]
    assert not (project / "ran").exists()


@pytest.mark.parametrize("sent", ["".join(p) for n in range(5) for p in product("pi", repeat=n)])
def test_an_interrupt_cancels_the_prompts_before_it_and_no_later_one(
    tmp_path: Path, sent: str
) -> None:
    """They are all sent at once: `p` a prompt, `i` an interrupt."""
    argv = [sys.executable, "-I", "-S", str(CHILD), "--state", str(tmp_path)]
    prompt, interrupt = {"type": "prompt", "text": steps({"say": "hi"})}, {"type": "interrupt"}
    words = "".join(json.dumps(prompt if one == "p" else interrupt) + "\n" for one in sent)
    done = subprocess.run(argv, input=words, capture_output=True, text=True, timeout=30)
    _ready, *rest = map(json.loads, done.stdout.splitlines())
    cancelled, _, later = sent.rpartition("i")
    ends = [message["reason"] for message in rest if message["type"] == "end"]
    assert ends == ["cancelled"] * ("p" in cancelled) + ["completed"] * len(later)
    assert [message["type"] for message in rest].count("took_up") == max(0, len(later) - 1)


async def test_cancel_ends_the_turn_and_not_the_conversation(
    host: PlainHost, project: Path
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.conversation.prompt(Prompt("script:hang"))
        await mock.until(lambda: mock.text == "Now I wait for ever.")
        await mock.conversation.cancel()
        await mock.until(lambda: mock.events[-1] == TurnEnded(reason="cancelled"))
        assert (await mock.turn(steps({"say": "still here"})))[-1] == DONE


async def test_cancel_ends_a_running_command_and_an_open_request(
    host: PlainHost, project: Path
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        calls = {"parallel": [{"run": "echo on; sleep 600", "ask": False}, {"run": "true"}]}
        await mock.conversation.prompt(Prompt(steps(calls)))
        await mock.until(lambda: mock.of(ToolUpdated))
        await mock.conversation.cancel()
        await mock.until(lambda: mock.of(TurnEnded))
        assert used(mock.events)[-4:] == [
            RequestAnswered(request_id="r1.3", answer=Answer("deny"), by="withdrawn"),
            ToolFinished(call_id="c1.2", outcome="cancelled"),
            ToolFinished(call_id="c1.1", outcome="cancelled"),
            TurnEnded(reason="cancelled"),
        ]


async def test_model_and_mode_change_between_turns(host: PlainHost, project: Path) -> None:
    spec = session_spec(cwd=project, model="mock-deep", effort="high", system="be brief")
    async with listening(agent, spec, host) as mock:
        await mock.turn(steps({"say": "{model} {mode} {effort} {system}; "}))
        await mock.conversation.configure(model="mock-quick", mode="plan")
        await mock.until(lambda: mock.of(SettingsChanged))
        assert mock.events[-1] == SettingsChanged(model="mock-quick", mode="plan")
        await mock.turn(steps({"say": "{model} {mode}"}))
        assert mock.text == "mock-deep agent high be brief; mock-quick plan"


async def test_files_arrive_complete(host: PlainHost, project: Path) -> None:
    data = bytes(range(256)) * 4096
    async with listening(agent, session_spec(cwd=project), host) as mock:
        prompt = Prompt(steps({"say": "{files}"}), (File("a.png", "image/png", data),))
        await mock.conversation.prompt(prompt)
        await mock.until(lambda: mock.of(TurnEnded))
        assert mock.text == f"a.png (1048576 bytes, {hashlib.sha256(data).hexdigest()[:12]})"


async def test_a_conversation_continues_in_another_process(host: PlainHost, project: Path) -> None:
    spec = session_spec(cwd=project, options={"script": "recall"})
    async with listening(agent, spec, host) as first:
        await first.turn("the word is plum")
        (ready,) = first.of(AgentReady)
    assert isinstance(ready, AgentReady)
    again = session_spec(cwd=project, resume=ready.native_id)
    async with listening(agent, again, host) as second:
        await second.turn("which word?")
        assert second.text == "Before this you said: the word is plum"
        assert second.of(AgentReady) == [ready]
        assert {e.message_id for e in second.of(MessageChunk)} == {"m2.1"}  # type: ignore[attr-defined]


async def test_a_fork_leaves_the_first_conversation_unchanged(
    host: PlainHost, project: Path
) -> None:
    spec = session_spec(cwd=project, options={"script": "recall"})
    async with listening(agent, spec, host) as first:
        await first.turn("plum")
        (ready,) = first.of(AgentReady)
    assert isinstance(ready, AgentReady)
    fork = session_spec(cwd=project, resume=ready.native_id, fork=True)
    async with listening(agent, fork, host) as second:
        await second.turn("pear")
        (copy,) = second.of(AgentReady)
        assert copy != ready
    async with listening(agent, session_spec(cwd=project, resume=ready.native_id), host) as third:
        await third.turn("?")
        assert third.text == "Before this you said: plum"


async def test_an_unknown_conversation_is_a_failed_turn(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project, resume="mock-0"), host) as mock:
        turn = await mock.turn("hello")
        failure = Failure(kind="history_lost", message="mock: no conversation 'mock-0'")
        assert turn[-1] == TurnEnded(reason="failed", failure=failure)


async def test_a_script_is_chosen_by_option_prompt_or_path(host: PlainHost, project: Path) -> None:
    path = project / "mine.json"
    path.write_text('[[{"say": "one"}], [{"say": "two"}]]')
    spec = session_spec(cwd=project, options={"script": "hello"})
    async with listening(agent, spec, host) as mock:
        await mock.turn("A; ")
        await mock.turn(str(path))
        await mock.turn("next")
        await mock.turn("and again")
        await mock.turn("script:nope")
        assert mock.text == "Hello. You said: A; onetwotwo"
        ended = mock.events[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.failure
        assert "no script 'nope'; built in are background, crash," in ended.failure.message


@pytest.mark.parametrize("kind", get_args(FailureKind))
async def test_every_kind_of_turn_failure_can_be_scripted(
    host: PlainHost, project: Path, kind: FailureKind
) -> None:
    failure = {"message": "no", "status": 429, "retry_after": 1.5, "hint": "wait"}
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(steps({"fail": kind, **failure}))
        expected = Failure(kind=kind, message="no", status=429, retry_after=1.5, hint="wait")
        assert turn[-1] == TurnEnded(reason="failed", failure=expected)


async def test_a_structured_result_comes_with_the_end(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(steps({"stop": {"answer": 42}}, {"say": "never"}))
        assert turn[-1] == TurnEnded(reason="completed", result={"answer": 42})
        assert mock.text == ""


async def test_an_unsupported_option_is_refused_by_name(host: PlainHost, project: Path) -> None:
    with pytest.raises(Unsupported, match="mock does not support additional folders"):
        await agent.open(session_spec(cwd=project, folders=(project,)), host)


def test_its_program_loads_little_before_its_first_output(tmp_path: Path) -> None:
    """It must be ready within 20 ms, and each of these modules alone takes that long."""
    argv = [sys.executable, "-I", "-S", "-X", "importtime", str(CHILD), "--state", str(tmp_path)]
    prompt = json.dumps({"type": "prompt", "text": steps({"say": "hi"})}) + "\n"
    done = subprocess.run(argv, input=prompt, capture_output=True, text=True, timeout=30)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert '"text":"hi"' in done.stdout
    assert "program.turn" in loaded
    heavy = {"asyncio", "tillerman", "dataclasses", "pathlib", "subprocess", "tempfile", "typing"}
    assert loaded & heavy == set()


async def test_it_streams_text_at_the_pace_of_its_script(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project, options={"pace": 0.05}), host) as mock:
        start = time.monotonic()
        await mock.turn(steps({"say": "a b c d e f"}))
        assert 0.25 < time.monotonic() - start < 5


async def test_closing_an_idle_one_lets_it_exit_by_itself(host: PlainHost, project: Path) -> None:
    spec = session_spec(cwd=project)
    async with listening(agent, spec, host) as mock:
        await mock.turn(steps({"background": "wait", "after": 3600, "steps": []}))
        await asyncio.wait_for(mock.conversation.close(), 2)
        await mock.over()
        assert mock.events[-1] == AgentExited(code=0)
