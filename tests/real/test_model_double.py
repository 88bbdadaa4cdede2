"""The scripted model works with the real Claude Code, without tillerman in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.real.real_claude import RealClaude
from tillerman.testing.model_double.anthropic import blocks, system_text, tool_results, user_text
from tillerman.testing.model_double.script import (
    ConnectionCut,
    Fail,
    ModelToolCall,
    ReplyHold,
    Say,
    Stall,
    Think,
    Usage,
    attempts,
    overflow,
    reply,
)
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

Line = dict[str, Any]
_STREAM = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
_DUPLEX = [*_STREAM, "--input-format", "stream-json", "--permission-prompt-tool", "stdio"]


@dataclass
class Running:
    """A running CLI whose lines are read one by one."""

    process: asyncio.subprocess.Process
    lines: list[Line]

    def send(self, message: Line) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def say(self, text: str) -> None:
        self.send({"type": "user", "message": {"role": "user", "content": text}})

    def answer(self, request: Line, response: Line) -> None:
        body = {"subtype": "success", "request_id": request["request_id"], "response": response}
        self.send({"type": "control_response", "response": body})

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def until(self, kind: str) -> Line:
        """The next line of a type."""
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            while raw := await self.process.stdout.readline():
                line: Line = json.loads(raw)
                self.lines.append(line)
                if line["type"] == kind:
                    return line
        raise AssertionError(f"no {kind} line; got {[line['type'] for line in self.lines]}")

    async def rest(self) -> int:
        """Reads to the end; returns the exit code."""
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            async for raw in self.process.stdout:
                self.lines.append(json.loads(raw))
            return await self.process.wait()

    @property
    def results(self) -> list[Line]:
        return [line for line in self.lines if line["type"] == "result"]

    def failure(self, code: int) -> tuple[int, bool, int | None, str]:
        """How a failed one-shot run ended: exit code, error or not, HTTP status, kind of error."""
        [result], [message] = (
            [line for line in self.lines if line["type"] == kind]
            for kind in ("result", "assistant")
        )
        return code, result["is_error"], result["api_error_status"], message["error"]

    def deltas(self, kind: str) -> str:
        """The streamed text of one kind (`text` or `thinking`), joined."""
        events = [line["event"] for line in self.lines if line["type"] == "stream_event"]
        return "".join(event.get("delta", {}).get(kind, "") for event in events)


@contextlib.asynccontextmanager
async def started(
    claude: RealClaude, double: ModelDouble, arguments: list[str], **environment: str
) -> AsyncIterator[Running]:
    stdin = asyncio.subprocess.PIPE if "--input-format" in arguments else asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        claude.program,
        *arguments,
        env=claude.environment(double.base_url, **environment),
        cwd=claude.project,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=16 * 1024 * 1024,
    )
    try:
        yield Running(process, [])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def one_shot(
    claude: RealClaude, double: ModelDouble, prompt: str, *flags: str, **environment: str
) -> tuple[Running, int]:
    arguments = [*_STREAM, *flags, "--", prompt]
    async with started(claude, double, arguments, **environment) as running:
        return running, await running.rest()


async def test_text_streams_in_pieces_and_usage_arrives(
    claude: RealClaude, double: ModelDouble
) -> None:
    usage = Usage(input=111, output=22, cache_read=3, cache_write=4)
    double.scenarios["hello"] = [reply(Say("Hello from the script.", chunks=5), usage=usage)]

    running, code = await one_shot(
        claude, double, "@@hello@@ greet me", "--append-system-prompt", "Be brief, parrot."
    )

    assert (code, running.deltas("text")) == (0, "Hello from the script.")
    [result] = running.results
    assert (result["result"], result["is_error"]) == ("Hello from the script.", False)
    assert {name: result["usage"][name] for name in _USAGE_NAMES} == dict(
        zip(_USAGE_NAMES, (111, 22, 3, 4), strict=True)
    )
    [asked] = double.turns
    assert "greet me" in user_text(asked.body)
    assert "Be brief, parrot." in system_text(asked.body)
    assert "sk-fake" not in str(asked)


_USAGE_NAMES = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


async def test_thinking_comes_before_text(claude: RealClaude, double: ModelDouble) -> None:
    double.scenarios["think"] = [reply(Think("First, consider."), Say("Considered."))]

    running, code = await one_shot(claude, double, "@@think@@")

    assert (code, running.deltas("thinking")) == (0, "First, consider.")
    messages = [
        line["message"]["content"][0] for line in running.lines if line["type"] == "assistant"
    ]
    assert [block["type"] for block in messages] == ["thinking", "text"]


async def test_a_tool_call_writes_a_file(claude: RealClaude, double: ModelDouble) -> None:
    target = claude.project / "made.txt"
    double.scenarios["write"] = [
        reply(
            ModelToolCall(
                "Write", {"file_path": str(target), "content": "by script\n"}, id="toolu_w"
            )
        ),
        reply(Say("Written.")),
    ]

    running, code = await one_shot(claude, double, "@@write@@", "--permission-mode", "acceptEdits")

    assert (code, target.read_text(), running.results[-1]["result"]) == (
        0,
        "by script\n",
        "Written.",
    )
    assert "successfully" in tool_results(double.turns[1].body)["toolu_w"]


async def test_parallel_tools_return_together(claude: RealClaude, double: ModelDouble) -> None:
    double.scenarios["parallel"] = [
        reply(
            Say("Both at once."),
            ModelToolCall("Bash", {"command": "echo one", "description": "one"}, id="toolu_1"),
            ModelToolCall("Bash", {"command": "echo two", "description": "two"}, id="toolu_2"),
        ),
        reply(Say("Both done.")),
    ]

    running, code = await one_shot(claude, double, "@@parallel@@")

    assert (code, running.results[-1]["result"]) == (0, "Both done.")
    assert tool_results(double.turns[1].body) == {"toolu_1": "one", "toolu_2": "two"}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, "authentication_failed"),
        (429, "rate_limit"),
        (500, "server_error"),
        (529, "server_error"),
    ],
)
async def test_a_temporary_failure_is_retried_and_then_reported(
    claude: RealClaude, double: ModelDouble, status: int, error: str
) -> None:
    double.scenarios["error"] = [Fail(status)]

    running, code = await one_shot(claude, double, "@@error@@")

    assert running.failure(code) == (1, True, status, error)
    assert [(turn.step, turn.attempt) for turn in double.turns] == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (Fail(400), "unknown"),
        (Fail(402, message="Your credit balance is too low."), "billing_error"),
        (Fail(403), "authentication_failed"),
        (Fail(404), "model_not_found"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fail) else value,
)
async def test_a_permanent_failure_is_reported_without_a_retry(
    claude: RealClaude, double: ModelDouble, fail: Fail, error: str
) -> None:
    double.scenarios["error"] = [fail]

    running, code = await one_shot(claude, double, "@@error@@")

    assert running.failure(code) == (1, True, fail.status, error)
    assert "api_retry" not in [line.get("subtype") for line in running.lines]


async def test_a_retry_waits_as_instructed_and_gets_the_next_attempt(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["retry"] = [attempts(Fail(429, retry_after=2), reply(Say("Better now.")))]

    running, code = await one_shot(claude, double, "@@retry@@")

    assert (code, running.results[-1]["result"]) == (0, "Better now.")
    [retry] = [line for line in running.lines if line.get("subtype") == "api_retry"]
    assert (retry["error_status"], retry["retry_delay_ms"]) == (429, 2000)


async def test_a_conversation_too_long_is_refused(claude: RealClaude, double: ModelDouble) -> None:
    double.scenarios["long"] = [overflow()]

    running, code = await one_shot(claude, double, "@@long@@")

    [result] = running.results
    assert (code, result["is_error"]) == (1, True)
    assert "prompt is too long" in result["result"].lower()


@pytest.mark.parametrize(
    ("stop", "error"), [("refusal", "invalid_request"), ("max_tokens", "max_output_tokens")]
)
async def test_odd_stop_reasons_are_errors(
    claude: RealClaude, double: ModelDouble, stop: str, error: str
) -> None:
    double.scenarios["stop"] = lambda request: reply(Say("I can"), stop=stop)

    running, code = await one_shot(claude, double, "@@stop@@")

    assert (code, running.results[-1]["is_error"]) == (1, True)
    errors = [line["error"] for line in running.lines if line.get("error")]
    assert errors[-1] == error


async def test_an_empty_reply_makes_the_cli_ask_again(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["empty"] = [attempts(reply(), reply(Say("Something.")))]

    running, code = await one_shot(claude, double, "@@empty@@")

    assert (code, running.results[-1]["result"]) == (0, "Something.")
    assert [turn.attempt for turn in double.turns] == [0, 1]


async def test_a_stream_cut_in_mid_text_is_requested_again(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["cut"] = [
        attempts(
            reply(Say("The sent", chunks=1), ConnectionCut()), reply(Say("The sentence is whole."))
        )
    ]

    running, code = await one_shot(claude, double, "@@cut@@")

    assert (code, running.results[-1]["result"]) == (0, "The sentence is whole.")
    assert running.deltas("text").startswith("The sent")
    assert [turn.attempt for turn in double.turns] == [0, 1]


async def test_a_stream_that_is_always_cut_fails(claude: RealClaude, double: ModelDouble) -> None:
    double.scenarios["cut"] = [reply(Say("The sent", chunks=1), ConnectionCut())]

    running, code = await one_shot(claude, double, "@@cut@@")

    assert running.failure(code) == (1, True, None, "server_error")


async def test_an_error_in_mid_stream_is_an_overload(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["overload"] = [reply(Say("Half"), Stall(0.1), Fail(529, message="Overloaded"))]

    running, code = await one_shot(claude, double, "@@overload@@")

    [result] = running.results
    assert (code, result["is_error"], running.deltas("text")) == (1, True, "Half")
    assert "529 Overloaded" in result["result"]


async def test_a_background_subagent_has_its_own_lane_and_wakes_the_main_one(
    claude: RealClaude, double: ModelDouble
) -> None:
    task = {
        "description": "look around",
        "prompt": "@@child@@ look around",
        "subagent_type": "general-purpose",
        "run_in_background": True,
    }
    double.scenarios |= {
        "parent": [
            reply(ModelToolCall("Agent", task, id="toolu_agent")),
            reply(Say("It is under way.")),
            reply(Say("It is done.")),
        ],
        "child": [
            reply(
                ReplyHold("main turn is over"),
                ModelToolCall("Bash", {"command": "pwd"}, id="toolu_pwd"),
            ),
            reply(Say("Seen all of it.")),
        ],
    }

    async with started(claude, double, _DUPLEX) as running:
        running.say("@@parent@@ delegate")
        first = await running.until("result")
        double.release("main turn is over")
        second = await running.until("result")
        running.close_stdin()
        code = await running.rest()

    assert (code, first["result"], second["result"]) == (0, "It is under way.", "It is done.")
    routed = {(turn.scenario, turn.step) for turn in double.turns}
    assert routed == {("parent", 0), ("parent", 1), ("parent", 2), ("child", 0), ("child", 1)}
    wake_pipe = await double.seen("parent", 2)
    assert "Seen all of it." in str(wake_pipe.body["messages"][-1])


async def test_a_denial_over_the_control_protocol_reaches_the_model(
    claude: RealClaude, double: ModelDouble
) -> None:
    target = claude.project / "never.txt"
    double.scenarios["deny"] = [
        reply(ModelToolCall("Write", {"file_path": str(target), "content": "no"}, id="toolu_w")),
        reply(Say("Then not.")),
    ]

    async with started(claude, double, _DUPLEX) as running:
        hello = {"subtype": "initialize", "hooks": None}
        running.send({"type": "control_request", "request_id": "r1", "request": hello})
        ready = await running.until("control_response")
        running.say("@@deny@@ write it")
        asked = await running.until("control_request")
        running.answer(asked, {"behavior": "deny", "message": "not in this house"})
        result = await running.until("result")
        running.close_stdin()
        code = await running.rest()

    assert ready["response"]["subtype"] == "success"
    assert (asked["request"]["subtype"], asked["request"]["tool_use_id"]) == (
        "can_use_tool",
        "toolu_w",
    )
    assert (code, result["result"], target.exists()) == (0, "Then not.", False)
    assert tool_results(double.turns[1].body) == {"toolu_w": "not in this house"}


async def test_an_interrupt_ends_a_reply_that_hangs(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios |= {
        "hang": [reply(Say("It begins", chunks=1), ReplyHold("never"))],
        "next": [reply(Say("Still here."))],
    }

    async with started(claude, double, _DUPLEX) as running:
        running.say("@@hang@@")
        while running.deltas("text") != "It begins":
            await running.until("stream_event")
        stop = {"subtype": "interrupt"}
        running.send({"type": "control_request", "request_id": "r1", "request": stop})
        interrupted = await running.until("result")
        running.say("@@next@@")
        result = await running.until("result")

    assert interrupted["subtype"] == "error_during_execution"
    assert result["result"] == "Still here."


async def test_an_image_in_a_prompt_reaches_the_model(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["image"] = [reply(Say("A dot."))]
    source = {"type": "base64", "media_type": "image/png", "data": _DOT}
    content = [{"type": "text", "text": "@@image@@"}, {"type": "image", "source": source}]

    async with started(claude, double, _DUPLEX) as running:
        running.send({"type": "user", "message": {"role": "user", "content": content}})
        await running.until("result")

    [image] = blocks(double.turns[0].body, "image")
    assert image["source"] == source


_DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwAD"
    "hgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_background_requests_of_the_cli_take_no_step(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["chores"] = [reply(Say("Step one.")), reply(Say("Step two."))]

    async with started(
        claude, double, _DUPLEX, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=""
    ) as running:
        running.say("@@chores@@ a prompt long enough that the session would like a title for it")
        first = await running.until("result")
        running.say("and on")
        second = await running.until("result")

    assert (first["result"], second["result"]) == ("Step one.", "Step two.")
    assert [(turn.step, turn.attempt) for turn in double.turns] == [(0, 0), (1, 0)]


async def test_a_turn_without_tools_is_a_turn(claude: RealClaude, double: ModelDouble) -> None:
    double.scenarios["bare"] = [reply(Say("No tools, still an agent."))]

    running, _ = await one_shot(claude, double, "@@bare@@", "--tools", "")

    assert running.results[-1]["result"] == "No tools, still an agent."


async def test_a_resumed_conversation_continues_its_script(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["resume"] = [reply(Say("First.")), reply(Say("Second."))]

    before, _ = await one_shot(claude, double, "@@resume@@ begin")
    session = before.results[-1]["session_id"]
    after, code = await one_shot(claude, double, "go on", f"--resume={session}")

    assert (code, after.results[-1]["result"]) == (0, "Second.")


async def test_messages_sent_in_mid_turn_reach_the_model_in_the_same_lane(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["steer"] = [
        reply(
            ReplyHold("steered"),
            ModelToolCall("Bash", {"command": "echo busy", "description": "busy"}),
        ),
        reply(Say("Understood.")),
    ]

    async with started(claude, double, _DUPLEX) as running:
        running.say("@@steer@@ begin")
        await double.seen("steer")
        running.say("make it green")
        # answered only after the message before it was read
        running.send({"type": "control_request", "request_id": "r1", "request": _STATUS})
        await running.until("control_response")
        double.release("steered")
        result = await running.until("result")

    assert result["result"] == "Understood."
    assert "make it green" in user_text((await double.seen("steer", 1)).body)


_STATUS = {"subtype": "mcp_status"}


async def test_a_compacted_conversation_keeps_its_place(
    claude: RealClaude, double: ModelDouble
) -> None:
    double.scenarios["long"] = [reply(Say(text)) for text in ("One.", "Two.", "Three.", "Four.")]

    async with started(claude, double, _DUPLEX) as running:
        results = []
        for prompt in ("@@long@@", "again", "/compact", "and now?", "at last"):
            running.say(prompt)
            results.append((await running.until("result"))["result"])

    assert (results[:2], results[3:]) == (["One.", "Two."], ["Three.", "Four."])
    assert "compact_boundary" in [line.get("subtype") for line in running.lines]
    assert "@@long@@" not in user_text(double.turns[-1].body)
