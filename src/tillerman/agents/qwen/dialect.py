"""ACP dialect of Qwen Code."""

from __future__ import annotations

import re
from typing import Any

from tillerman.agents.acp import content
from tillerman.agents.acp.dialect import AcpDialect, AcpQuestions, Outcome
from tillerman.agents.acp.tools import UNNAMED
from tillerman.agents.decoding.fields import Table, parse, table, tables, text
from tillerman.agents.decoding.questions import question
from tillerman.agents.jsonrpc.peer import RpcRequest
from tillerman.agents.qwen.launch import acp
from tillerman.core.agent import SessionSpec
from tillerman.core.events import Answer
from tillerman.core.wire import Launch

_FAILED_COMMAND = re.compile(r"^Exit Code: [1-9]\d*$", re.MULTILINE)
_RUNTIME = re.compile(r"\$runtime\|[^|]*\|(?P<name>.+)\([^()]*\)")
_NO_OUTPUT = "\nOutput: (empty)\n"
_BY_INPUT = {
    "questions": "ask_user_question",
    "command": "run_shell_command",
    "old_string": "edit",
    "content": "write_file",
    "plan": "exit_plan_mode",
    "skill": "skill",
}
_BY_KIND = {"other": UNNAMED}
_BRIDGE = "tool_call"  # calls a tool that the request then names
_LISTING = {"path", "ignore", "file_filtering_options"}
_CANCELLED = {"outcome": {"outcome": "cancelled"}}


class QwenDialect(AcpDialect):
    def launch(self, spec: SessionSpec) -> Launch:
        return acp(spec)

    def preamble(self, spec: SessionSpec) -> str:
        """Empty: the system prompt is on the command line."""
        return ""

    def model(self, id: str) -> str:
        """The model name in `$runtime|openai|gpt-5(openai)`, set by variables or flags."""
        found = _RUNTIME.fullmatch(id)
        return found["name"] if found else id

    def tool_name(self, call: Table) -> str:
        """The tool name; older versions omit it in requests, so the input decides.

        The title of an MCP tool is its input.
        """
        if name := super().tool_name(call):
            return "" if name == _BRIDGE else name
        input = table(call, "rawInput")
        if parse(text(call, "title").encode()) == input:
            return UNNAMED
        if text(call, "kind") == "search" and "path" in input and input.keys() <= _LISTING:
            return "list_directory"
        named = (name for key, name in _BY_INPUT.items() if key in input)
        return next(named, _BY_KIND.get(text(call, "kind"), "") if input else "")

    def outcome(self, status: str, call: Table) -> Outcome | None:
        """Detects outcomes that are reported as text only; in older versions also exit codes."""
        if status == "completed" and call.get("rawOutput") == "Command cancelled by user.":
            return "cancelled"
        for words in (text(table(part, "content"), "text") for part in tables(call, "content")):
            if status == "failed" and words.startswith("Plan mode "):
                return "denied"
            if status == "completed" and _FAILED_COMMAND.search(words):
                return "failed"
        return None

    def output(self, call: Table) -> str | None:
        """The output of a command; the call's text is for the model and contains more."""
        if self.tool_name(call) != "run_shell_command":
            return None
        if "rawOutput" in call:
            return content.output(call["rawOutput"])
        messages = (text(table(part, "content"), "text") for part in tables(call, "content"))
        return "" if any(_NO_OUTPUT in words for words in messages) else None

    def denial(self, note: str) -> str:
        return f"The user denied this call: {note}"

    def asking(self, asked: RpcRequest) -> AcpQuestions | None:
        """Decodes a question, which is a permission request with the questions in its input."""
        call = table(asked.params, "toolCall")
        questions = tables(table(call, "rawInput"), "questions")
        if asked.method != "session/request_permission" or not questions:
            return None
        texts = [text(question, "question") for question in questions]
        options = tables(asked.params, "options")
        submit = next(
            (text(one, "optionId") for one in options if text(one, "kind") == "allow_once"), ""
        )

        def result(answer: Answer) -> Any:
            if answer.option == "deny" or not submit:
                return _CANCELLED
            given = answer.answers or {}
            answers = {str(n): given[words] for n, words in enumerate(texts) if words in given}
            return {"outcome": {"outcome": "selected", "optionId": submit}, "answers": answers}

        return AcpQuestions(
            tuple(map(question, questions)), result, text(call, "toolCallId") or None
        )
