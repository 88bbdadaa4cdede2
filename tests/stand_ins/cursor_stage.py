"""A turn of the stand-in, told as stream-json: a recording played back, or a script performed.

The prompt names what is to be played: `@@NAME@@` a recording or a scene of SCENES, and
`@@script@@ [STEP, …]` a script. A step is one of

    {"say": TEXT, "pieces": COUNT or [TEXT], "delay": SECONDS}  {"think": TEXT}  {"wait": SECONDS}
    {"hold": FILE, "limit": SECONDS}  until it is there  {"touch": FILE}
    {"line": TEXT or OBJECT}  {"complain": TEXT}
    {"shell": COMMAND}  {"edit": PATH, "content": TEXT}  {"read": PATH}  {"delete": PATH}
    {"tool": KIND, "args": {…}, "result": {…}}  {"tools": [STEP, …]}  all at once
    {"fire": EVENT, "with": {…}}  a hook event of which nobody knows when it comes in print mode
    {"exit": CODE, "stderr": TEXT}  {"die": SIGNAL}  {"stop": true}  no result  {"error": TEXT}
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tests.stand_ins.cursor_home import Home, new_id
from tests.stand_ins.cursor_hooks import Hooks
from tests.stand_ins.cursor_tools import Tools

Table = dict[str, Any]

RECORDINGS = Path(__file__).parents[1] / "recordings" / "cursor"
SCENES: dict[str, list[Table]] = {
    "hello": [
        {"think": "The user wants a one-sentence greeting."},
        {"say": "Hello, and welcome to the project."},
    ],
    "plan_wall": [
        {
            "exit": 1,
            "stderr": "ActionRequiredError: Named models unavailable Free plans can only use Auto."
            " Switch to Auto or upgrade plans to continue.\n",
        }
    ],
    "usage_limit": [
        {
            "exit": 1,
            "stderr": "ActionRequiredError: You've hit your usage limit. Switch to a different"
            " model or set a Spend Limit to continue.\n",
        }
    ],
}
PIECES = re.compile(r"\s*\S+|\s+$")
TOKEN = re.compile(r"@@([\w.-]+)@@\s*(.*)", re.DOTALL)
SUGAR = {"shell": "command", "edit": "path", "read": "path", "delete": "path"}


class Stage:
    def __init__(
        self,
        home: Home,
        tools: Tools,
        hooks: Hooks,
        *,
        chat: str,
        model: str,
        format: str,
        partial: bool,
    ) -> None:
        self._home = home
        self._tools = tools
        self._hooks = hooks
        self._chat = chat
        self._model = model
        self._format = format
        self._partial = partial
        self._request = new_id()
        self._model_calls = 0
        self._numbers = count()
        self._said = ""
        self._since = time.monotonic()
        self._lines = threading.Lock()

    def play(self, prompt: str, contexts: list[str]) -> int:
        """Returns the exit code. `contexts`: text that hooks have added."""
        before = self._home.stored_messages(self._chat)
        self._home.note_told(self._rules(), before, [*filter(None, contexts), prompt])
        self._home.remember(self._chat, "user", prompt)
        self._report(
            "system",
            subtype="init",
            apiKeySource=self._home.key_source,
            cwd=str(self._home.cwd),
            model=self._model,
            permissionMode="default",
        )
        content = [{"type": "text", "text": prompt}]
        self._report("user", message={"role": "user", "content": content})
        named = TOKEN.search(prompt)
        name, rest = (named[1], named[2]) if named else ("hello", "")
        if (RECORDINGS / name / "wire.jsonl").exists() and name not in SCENES:
            return self._play_back(name)
        return self._perform(self._script(name, rest, prompt, before))

    def _script(self, name: str, rest: str, prompt: str, before: list[Table]) -> list[Table]:
        match name:
            case "script":
                return list(json.JSONDecoder().raw_decode(rest)[0])  # words may follow
            case "recall":
                messages = [
                    one["message"]["content"][0]["text"].split("\n")[1] for one in before[:1]
                ]
                return [
                    {
                        "say": f"You began with: {messages[0]}"
                        if messages
                        else "You said nothing yet."
                    }
                ]
            case "rules":
                return [{"say": self._rules()}]
            case "prompt":
                return [{"say": prompt}]
            case "argv":
                return [{"say": json.dumps(sys.argv[1:])}]
            case "config":
                return [{"say": json.dumps(self._home.config())}]
        return SCENES[name]

    def _rules(self) -> str:
        files = [self._home.cwd / name for name in ("AGENTS.md", "CLAUDE.md")]
        return "".join(file.read_text() for file in files if file.exists()) or "no rules"

    # -- a recording -------------------------------------------------------------------------

    def _play_back(self, name: str) -> int:
        """Replays it with this folder as its own, and with the effects of its edits."""
        text = (RECORDINGS / name / "wire.jsonl").read_text()
        for line in text.replace("/proj", str(self._home.cwd)).splitlines():
            try:
                message = json.loads(line)
            except ValueError:
                self._write(line)
                continue
            if message["type"] == "user" or message.get("subtype") == "init":
                continue
            if message["type"] == "tool_call" and message["subtype"] == "completed":
                self._redo(message["call_id"], message["tool_call"])
            self._write(json.dumps({**message, "session_id": self._chat}))
            if message["type"] == "result":
                self._home.remember(self._chat, "assistant", message["result"])
        return 0

    def _redo(self, call_id: str, call: Table) -> None:
        """Repeats what it did, unless a hook denies it."""
        for key, value in call.items():
            fields = value.get("result", {}) if isinstance(value, dict) else {}
            if not fields or "rejected" in fields or "permissionDenied" in fields:
                continue
            refused, _ = self._tools.ask(call_id, key.removesuffix("ToolCall"), value["args"])
            if refused:
                value["result"] = refused
            body = fields.get("success", {})
            if refused or "path" not in body:
                continue
            path = Path(body["path"])
            if key == "deleteToolCall":
                path.unlink(missing_ok=True)
            elif key in ("editToolCall", "writeToolCall"):
                path.parent.mkdir(parents=True, exist_ok=True)
                after = body.get("afterFullFileContent", value["args"].get("fileText"))
                if after is not None:
                    path.write_text(after)

    # -- a script ----------------------------------------------------------------------------

    def _perform(self, steps: list[Table]) -> int:
        for at, step in enumerate(steps):
            calls_follow = any(_is_call(later) for later in steps[at + 1 :])
            match step:
                case {"say": text}:
                    self._say(text, before_call=calls_follow, step=step)
                case {"think": text}:
                    for piece in PIECES.findall(text) if self._partial else [text]:
                        self._report("thinking", subtype="delta", text=piece, timestamp_ms=_now())
                    self._report("thinking", subtype="completed", timestamp_ms=_now())
                case {"wait": seconds}:
                    time.sleep(seconds)
                case {"hold": file}:
                    _wait_for(Path(file), step["limit"])
                case {"touch": file}:
                    Path(file).touch()
                case {"line": line}:
                    self._write(line if isinstance(line, str) else json.dumps(line))
                case {"complain": text}:
                    print(text, file=sys.stderr, flush=True)
                case {"exit": code}:
                    print(step.get("stderr", ""), end="", file=sys.stderr, flush=True)
                    return int(code)
                case {"die": number}:
                    os.kill(os.getpid(), number)
                case {"stop": True}:
                    return 0
                case {"error": text}:
                    self._result(text, failed=True)
                    return 0
                case {"fire": event}:
                    self._hooks.report(event, **step.get("with", {}))
                case {"tools": several}:
                    self._use(several)
                case _:
                    self._use([step])
        self._home.remember(self._chat, "assistant", self._said)
        self._result(self._said)
        return 0

    def _say(self, text: str, *, before_call: bool, step: Table | None = None) -> None:
        step = step or {}
        self._said += text
        if self._partial:
            for piece in _pieces(text, step.get("pieces")):
                time.sleep(step.get("delay", 0))
                self._speak(piece, timestamp_ms=_now())
        if before_call:
            self._speak(text, model_call_id=self._model_call, timestamp_ms=_now())
        else:
            self._speak(text)

    def _speak(self, text: str, **more: Any) -> None:
        content = [{"type": "text", "text": text}]
        self._report("assistant", message={"role": "assistant", "content": content}, **more)

    def _use(self, steps: list[Table]) -> None:
        """All at once: each runs its hooks and ends independently."""
        threads = [threading.Thread(target=self._start(step), daemon=True) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._model_calls += 1

    def _start(self, step: Table) -> Callable[[], None]:
        kind, args = _call(step)
        if not self._tools.offers(kind):
            return lambda: self._say(f"I have no {kind} tool.", before_call=True)
        number = next(self._numbers)
        call_id = f"call-{self._request}-{number}\nfc_{self._request}_{number}"
        started = str(_now())

        def report(
            subtype: str, result: Table, contexts: list[str] | None = None, **more: Any
        ) -> None:
            added = {"hookAdditionalContexts": contexts or []}
            call = {f"{kind}ToolCall": {"args": args, **result}, **added}
            self._report(
                "tool_call",
                subtype=subtype,
                call_id=call_id,
                tool_call={**call, "toolCallId": call_id, "startedAtMs": started, **more},
                model_call_id=self._model_call,
                timestamp_ms=_now(),
            )

        report("started", {})

        def end() -> None:
            result, contexts = self._tools.use(call_id, kind, args, step.get("result"))
            report("completed", {"result": result}, contexts, completedAtMs=str(_now()))

        return end

    @property
    def _model_call(self) -> str:
        return f"{self._request}-{self._model_calls}-x7su"

    # -- lines -------------------------------------------------------------------------------

    def _result(self, text: str, *, failed: bool = False) -> None:
        took = int((time.monotonic() - self._since) * 1000)
        usage = {"inputTokens": 102, "outputTokens": 16, "cacheReadTokens": 18432}
        result = {
            "type": "result",
            "subtype": "error" if failed else "success",
            "duration_ms": took,
            "duration_api_ms": took,
            "is_error": failed,
            "result": text,
            "session_id": self._chat,
            "request_id": self._request,
            **({} if failed else {"usage": {**usage, "cacheWriteTokens": 0}}),
        }
        if self._format == "text":
            print(text, flush=True)
        else:
            print(json.dumps(result), flush=True)

    def _report(self, kind: str, **fields: Any) -> None:
        self._write(json.dumps({"type": kind, **fields, "session_id": self._chat}))

    def _write(self, line: str) -> None:
        if self._format == "stream-json":
            with self._lines:
                print(line, flush=True)


def _is_call(step: Table) -> bool:
    return "tool" in step or "tools" in step or bool(SUGAR.keys() & step.keys())


def _call(step: Table) -> tuple[str, Table]:
    if "tool" in step:
        return step["tool"], step.get("args", {})
    kind = next(iter(SUGAR.keys() & step.keys()))
    args = {SUGAR[kind]: step[kind]}
    if kind == "edit":
        args["streamContent"] = step["content"]
    if kind == "shell":
        args |= {"workingDirectory": "", "timeout": step.get("timeout", 600_000)}
    return kind, args


def _pieces(text: str, count: int | list[str] | None) -> list[str]:
    if not count:
        return PIECES.findall(text)
    if isinstance(count, list):
        return count
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _wait_for(file: Path, limit: float) -> None:
    deadline = time.monotonic() + limit
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def _now() -> int:
    return int(time.time() * 1000)
