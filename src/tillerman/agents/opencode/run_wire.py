"""Decodes `opencode run`: one process per turn that prints whole parts and cannot ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tillerman.agents.decoding.fields import Table, parse, table, text
from tillerman.agents.decoding.inline_attachments import in_words
from tillerman.agents.opencode import failures
from tillerman.agents.opencode.config import environment, unasked
from tillerman.agents.opencode.message_parts import Parts
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.agents.stdio.one_way_wire import OneWayWire
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.events import AgentReady, Event, Notice, TurnEnded
from tillerman.core.wire import AttachmentBytes, Launch, WireReply

Said = Iterator[Event | AttachmentBytes]


class OpencodeRunWire(OneWayWire):
    """Derives the start and end of a turn, which are not reported.

    The session id is in every line, and the last step is the one that does not continue with tools.
    """

    def __init__(self, spec: SessionSpec) -> None:
        self._parts = Parts(str(spec.cwd), spec.tools.servers)
        self._begin()

    def _begin(self) -> None:
        self._session = ""
        self._over = False
        self._refused = False
        self._compacting = False

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        self._begin()
        argv = ["opencode", "run", "--format=json", "--thinking"]
        if spec.model:
            argv.append(f"--model={spec.model}")
        if spec.effort:
            argv.append(f"--variant={spec.effort}")
        if spec.mode == "plan":
            argv.append("--agent=plan")
        if spec.resume:
            argv.append(f"--session={spec.resume}")
            if spec.fork:
                argv.append("--fork")
        words = _words(prompt) if prompt else ""
        return Launch(argv, env=environment(spec, unasked(spec)), stdin=words.encode())

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]:
        return list(self._line(line))

    def _line(self, raw: bytes) -> Said:
        line = parse(raw)
        if isinstance(line, str):
            yield unrecognized(raw, line)
            return
        kind, part = text(line, "type"), table(line, "part")
        if kind not in ("step_start", "text", "reasoning", "tool_use", "step_finish", "error"):
            yield unrecognized(raw, f"a line of type {kind!r}")
            return
        if not part and kind != "error":
            yield unrecognized(raw, f"a {kind} without its part")
            return
        if (session := text(line, "sessionID")) and not self._session:
            self._session = session
            yield AgentReady(native_id=session)
        match kind:
            case "text" if self._compacting:
                if part.get("synthetic") is not True:
                    yield Notice(level="info", kind="compaction", text=text(part, "text"))
            case "text" | "reasoning" | "tool_use":
                yield from self._part(part)
            case "step_finish":
                yield from self._step(part)
            case "error":
                yield from self._error(table(line, "error"))

    def _part(self, part: Table) -> Said:
        for event in self._parts.updated(part):
            self._refused |= getattr(event, "outcome", "") == "denied" and _rejected(part)
            yield event

    def _step(self, part: Table) -> Said:
        yield from self._parts.updated(part)
        if text(part, "reason") == "tool-calls" and not self._refused:
            return
        if self._compacting:  # the step that wrote the summary; the turn continues
            self._compacting = False
        elif why := failures.of_finish(text(part, "reason")):
            yield from self._end(TurnEnded(reason="failed", failure=why))
        else:
            yield from self._end(TurnEnded(reason="completed"))

    def _error(self, error: Table) -> Said:
        match text(error, "name"):
            case failures.ABORTED:
                yield from self._end(TurnEnded(reason="cancelled"))
            case failures.OVERFLOW if not self._compacting:
                self._compacting = True
                message = failures.failure(error).message
                yield Notice(level="warning", kind="compaction", text=message)
            case _:
                why = failures.failure(error)
                yield from self._end(TurnEnded(reason="failed", failure=why))

    def _end(self, end: TurnEnded) -> Said:
        if not self._over:
            self._over = True
            yield from self._parts.finish()
            yield end


def _rejected(part: Table) -> bool:
    """Whether a request could not be answered, which ends the turn; a deny rule does not."""
    return text(table(part, "state"), "error").startswith("The user rejected")


def _words(prompt: Prompt) -> str:
    where = " on its `run` surface"
    hint = "remove `surface` from [agents.opencode]: over ACP it accepts images"
    files = [in_words("opencode", file, where=where, hint=hint) + "\n" for file in prompt.files]
    return "".join(files) + prompt.text
