"""Runs the steps of one turn of the mock agent, and always reports how it ended."""

from __future__ import annotations

import time

from . import tools
from .faults import misbehave
from .history import MockHistory
from .stdio import StdioPeer
from .steps import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .script import Step
    from .stdio import Message

    Task = tuple[float, str, str, list[Step]]  # due time, id, title, steps


class Interrupted(Exception):
    """The host cancels the turn."""


class MockTurnEnded(Exception):
    """The script ends the turn here."""

    def __init__(self, **end: object) -> None:
        self.end = end


class MockToolCall:
    """A tool call between its start and its result."""

    def __init__(self, id: str, tool: str, input: dict[str, Any], step: Step) -> None:
        self.id = id
        self.tool = tool
        self.input = input
        self.step = step
        self.request: str | None = None


class MockTurn:
    def __init__(
        self, host: StdioPeer, memory: MockHistory, tasks: list[Task], pace: float, prompt: Message
    ) -> None:
        self._host = host
        self._memory = memory
        self._tasks = tasks
        self._pace = pace
        self._prompt = prompt
        self._number = len(memory.turns) + 1
        self._ids = 0
        self._words = 0
        self._usage_sent = False
        self._calls: list[MockToolCall] = []
        self._parent: str | None = None
        self._filled: dict[str, str] = {}

    def play(self, steps: list[Step]) -> None:
        self._memory.begin(self._prompt["text"])
        self._host.interrupted = False
        self._filled = {
            "prompt": self._prompt["text"],
            "files": ", ".join(map(_describe, self._prompt.get("files", ()))) or "no files",
            "before": self._memory.before,
            "answer": "",
            "result": "",
            "steer": "",
        }
        end: dict[str, object] = {"reason": "completed"}
        try:
            self._play(steps)
        except MockTurnEnded as ended:
            end = ended.end
        except ValueError as error:
            failure = {"kind": "agent_failed", "message": f"mock: {error}"}
            end = {"reason": "failed", "failure": failure}
        except Interrupted:
            self._host.prompts.clear()  # they were sent for this turn, and would start another
            self._break_off()
            end = {"reason": "cancelled"}
        if not self._usage_sent:
            read = len(self._prompt["text"].split())
            cost = (read + 5 * self._words) / 1_000_000
            self._emit("usage", input_tokens=read, output_tokens=self._words, cost_usd=cost)
        self._memory.save()
        self._emit("end", **end)

    def _play(self, steps: list[Step]) -> None:
        for step in steps:
            self._pause(0)
            self._step(step)

    def _step(self, step: Step) -> None:
        check(step)
        match step:
            case {"say": text}:
                self._send_chunk("text", text)
            case {"think": text}:
                self._send_chunk("thought", text)
            case (
                {"read": _} | {"write": _} | {"edit": _} | {"run": _} | {"present": _} | {"call": _}
            ):
                self._finish(self._begin(step))
            case {"parallel": steps}:
                for one in steps:
                    check(one)
                for call in [self._begin(one) for one in steps]:
                    self._finish(call)
            case {"task": title, "steps": steps}:
                self._delegate(title, steps)
            case {"background": title, "steps": steps}:
                due = time.monotonic() + step.get("after", 0)
                self._tasks.append((due, self._new("b"), title, steps))
                send_tasks(self._host, self._tasks)
            case {"plan": steps}:
                self._emit("plan", steps=[s if isinstance(s, dict) else {"text": s} for s in steps])
            case {"question": questions}:
                self._ask(questions)
            case {"usage": usage}:
                self._usage_sent = True
                self._emit("usage", **usage)
            case {"notice": text, **rest}:
                self._emit("notice", **{"level": "info", "kind": "session", "text": text, **rest})
            case {"listen": seconds}:
                self._pause(seconds, lambda: bool(self._host.prompts))
                if self._host.prompts:
                    self._filled["steer"] = self._host.prompts.pop(0)["text"]
            case {"fail": kind, **rest}:
                failure = {"kind": kind, "message": f"the script failed with {kind}", **rest}
                raise MockTurnEnded(reason="failed", failure=failure)
            case {"stop": result}:
                raise MockTurnEnded(reason="completed", result=result)
            case {"repeat": times, "steps": steps}:
                for _ in range(times):
                    self._play(steps)
            case {"sleep": seconds}:
                self._pause(seconds)
            case {"hang": _}:
                self._pause(None)
            case _:
                misbehave(step, self._host)

    # -- text ------------------------------------------------------------------------------------

    def _send_chunk(self, type: str, text: str) -> None:
        id = self._new("m")
        for name, value in {**self._host.settings, **self._filled}.items():
            text = text.replace("{" + name + "}", value)
        due = time.monotonic()
        for word in text.replace(" ", " \0").split("\0"):
            self._emit(type, id=id, text=word)
            self._words += 1
            due += self._pace  # from the clock: the time to send a word is included
            self._pause(max(0.0, due - time.monotonic()))
        if type == "text":
            self._memory.turns[-1]["said"] += text + "\n"

    def _emit(self, type: str, **fields: object) -> None:
        if self._parent:
            fields["parent"] = self._parent
        self._host.say(type, **fields)

    def _pause(
        self,
        seconds: float | None,
        until: Callable[[], bool] = lambda: False,
        also: Sequence[int] = (),
    ) -> None:
        self._host.listen(seconds, lambda: self._host.interrupted or until(), also)
        if self._host.interrupted:
            raise Interrupted

    def _new(self, kind: str) -> str:
        """An id that is unique among all turns of the conversation, across processes."""
        self._ids += 1
        return f"{kind}{self._number}.{self._ids}"

    # -- tools -----------------------------------------------------------------------------------

    def _begin(self, step: Step) -> MockToolCall:
        tool, input = tools.input_of(step)
        call = self._start(tool, input, step)
        if tool != "read" and step.get("ask", True):
            call.request = self._new("r")
            asked = {key: step[key] for key in ("reason", "options") if key in step}
            self._emit(
                "ask", request_id=call.request, call_id=call.id, tool=tool, input=input, **asked
            )
        return call

    def _start(self, tool: str, input: dict[str, Any], step: Step) -> MockToolCall:
        call = MockToolCall(self._new("c"), tool, input, step)
        self._calls.append(call)
        self._emit("call", id=call.id, tool=tool, input=input)
        return call

    def _finish(self, call: MockToolCall) -> None:
        if call.request and not self._allowed(call, call.request):
            self._play(call.step.get("else", []))
            return
        try:
            if call.tool == "run":
                code, output = self._run(call)
                if code:
                    self._end(call, "failed", f"{output}\nexit code {code}")
                else:
                    self._end(call, "completed", output)
            elif "." in call.tool:
                done, text = self._host.servers.call(call.tool, call.input, self._until_readable)
                self._filled["result"] = text
                self._end(call, "completed" if done else "failed", text)
            else:
                self._end(call, "completed", tools.touch(call.tool, call.input))
        except (OSError, ValueError) as error:
            self._end(call, "failed", str(error))

    def _allowed(self, call: MockToolCall, request: str) -> bool:
        self._pause(call.step.get("withdraw"), lambda: request in self._host.answers)
        answer = self._host.answers.pop(request, None)
        if answer is None:
            self._withdraw(request)
            answer = {"option": "deny"}
        option, note = answer["option"], answer.get("note")
        self._filled["answer"] = note or option
        kinds = {one["id"]: one["kind"] for one in call.step.get("options", ())}
        if kinds.get(option, option) == "deny":
            self._end(call, "denied", note)
            return False
        call.input.update(answer.get("input") or {})
        return True

    def _until_readable(self, fd: int) -> None:
        self._pause(None, also=[fd])

    def _run(self, call: MockToolCall) -> tuple[int, str]:
        return tools.run(
            call.input["command"],
            wait=self._until_readable,
            show=lambda text: self._emit("output", id=call.id, text=text),
        )

    def _end(self, call: MockToolCall, outcome: str, content: object = None) -> None:
        self._calls.remove(call)
        if isinstance(content, str):
            content = {"type": "text", "text": content}
        self._emit("result", call_id=call.id, outcome=outcome, content=[content] if content else [])

    def _delegate(self, title: str, steps: list[Step]) -> None:
        call = self._start("task", {"description": title}, {})
        outer, self._parent = self._parent, call.id
        try:
            self._play(steps)
        finally:
            self._parent = outer
        self._end(call, "completed")

    def _ask(self, questions: list[dict[str, Any]]) -> None:
        request = self._new("r")
        self._emit("question", request_id=request, questions=questions)
        self._pause(None, lambda: request in self._host.answers)
        answer = self._host.answers.pop(request)
        chosen = answer.get("answers") or {}
        self._filled["answer"] = ", ".join(chosen.values()) or answer["option"]

    def _withdraw(self, request: str) -> None:
        self._emit("settled", request_id=request, answer={"option": "deny"}, by="withdrawn")

    def _break_off(self) -> None:
        for call in reversed(self._calls[:]):
            if call.request:
                self._withdraw(call.request)
            self._end(call, "cancelled")


def send_tasks(host: StdioPeer, tasks: list[Task]) -> None:
    host.say("tasks", tasks=[{"task_id": id, "title": title} for _, id, title, _ in tasks])


def _describe(file: dict[str, str]) -> str:
    import base64
    import hashlib

    data = base64.b64decode(file["data"])
    return f"{file['name']} ({len(data)} bytes, {hashlib.sha256(data).hexdigest()[:12]})"
