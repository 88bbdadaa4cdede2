"""Screen model of a session: finished blocks scroll up, the changing part stays below."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import assert_never

from rich.console import Group, RenderableType
from rich.text import Text

from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    BackgroundChanged,
    BackgroundTask,
    Entry,
    FilesChanged,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    PlanChanged,
    PlanStep,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
    UserMessage,
)
from tillerman.core.terminal_sanitizer import TerminalSanitizer, clean
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering import transcript_blocks as pieces
from tillerman.surfaces.rendering.markdown_stream import MarkdownStream
from tillerman.surfaces.rendering.proposed_changes import plan_of
from tillerman.surfaces.rendering.turn_outcome import Outcomes, seconds_between

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TAIL_LINES = 12
CALL_LINES = 6


class LiveScreen:
    def __init__(
        self,
        *,
        prompts: bool,
        resumable: bool,
        approve: str = "ask",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.approve = approve  # the current preset
        self.outcomes = Outcomes()
        self.finished: list[RenderableType] = []
        self.requests: dict[str, PermissionRequested | QuestionAsked] = {}  # open requests
        self._prompts = prompts  # show prompts, since they were typed elsewhere
        self._resumable = resumable
        self._clock = clock
        self._message: tuple[str, MarkdownStream] | None = None
        self._thoughts: dict[str | None, tuple[str, TerminalSanitizer, list[str]]] = {}  # by parent
        self._calls: dict[str, tuple[ToolStarted, str, float]] = {}  # call, start, clock
        self._depths: dict[str, int] = {}
        self._plan: tuple[PlanStep, ...] = ()
        self._background: tuple[BackgroundTask, ...] = ()
        self._busy = "starting"
        self._session = ""
        self._unrecognized = 0  # unrecognized lines of this turn

    # -- changing part -----------------------------------------------------------------------------

    @property
    def moving(self) -> bool:
        return bool(self._busy)

    def below(self) -> RenderableType | None:
        """The part redrawn at each refresh; kept short."""
        parts: list[RenderableType] = []
        spin = SPINNER[int(self._clock() * 10) % len(SPINNER)]
        if self._message:
            parts.append(Text(self._message[1].tail(TAIL_LINES)))
        for _, _, chunks in self._thoughts.values():
            words = "".join(chunks[-200:])[-400:]
            parts.append(
                Text(f"{spin} thinking  {formatting.one_line(words)[-60:]}", style="dim italic")
            )
        asked = {request.call_id for request in self.requests.values()}
        calls = [call for id, call in self._calls.items() if id not in asked]
        for call, _, began in calls[-CALL_LINES:]:
            now = formatting.duration(self._clock() - began)
            parts.append(pieces.running(call, now, spin, self._depths.get(call.call_id, 0)))
        if not parts and self._busy and not self.requests:
            unrecognized_lines = (
                f"  {formatting.unrecognized_lines(self._unrecognized)}"
                if self._unrecognized
                else ""
            )
            parts.append(Text(f"{spin} {self._busy}{unrecognized_lines}", style="dim"))
        return Group(*parts) if parts else None

    # -- events ------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        self._session = entry.session
        ended = self.outcomes.note([entry])
        event = entry.event
        match event:
            case MessageChunk() if event.parent is None:
                self._show_chunk(event)
            case ThoughtChunk() | MessageChunk():
                self._think(event)
            case MessageWithdrawn():
                self._withdraw(event.message_id)
            case ToolStarted():
                self._rest(event.parent)
                self._depths[event.call_id] = self._depths.get(event.parent or "", -1) + 1
                self._calls[event.call_id] = (event, entry.at, self._clock())
            case ToolUpdated():
                self._retitle(event)
            case ToolFinished():
                self._rest(event.parent)
                self._rest(event.call_id)
                self._finish(entry, event)
            case PermissionRequested() | QuestionAsked():
                self._rest(event.parent)
                self.requests[event.request_id] = event
            case RequestAnswered():
                self._answered(entry, event)
            case PlanChanged():
                self._rest(event.parent)
                self._change_plan(event.steps)
            case Notice():
                self._rest(event.parent)
                self.finished.append(pieces.notice(event))
            case TurnStarted():
                self._start_turn(event)
            case TurnEnded():
                self._rest()
                self._report_unrecognized()
                self._busy = "working in the background" if self._background else ""
                self.finished += [pieces.ending(outcome) for outcome in ended]
            case UserMessage(how="handoff"):
                self._rest()
                self.finished.append(pieces.account(event.text))
            case UserMessage():
                self._rest()
                self.finished.append(pieces.prompt(f"{event.text}  ({event.how})"))
            case BackgroundChanged():
                self._background = event.tasks
            case AgentStarted():
                self._busy = f"starting {formatting.one_line(event.agent)}"
            case AgentReady():
                self._introduce(event)
            case SettingsChanged():
                self._settings(event)
            case AgentExited():
                self._rest_all()
                self._busy = ""
                self._calls.clear()
                self.requests.clear()
            case Unrecognized():
                self._unrecognized += 1
            case UsageReported() | FilesChanged():
                pass
            case _:
                assert_never(event)

    def take(self) -> list[RenderableType]:
        pieces, self.finished = self.finished, []
        return pieces

    def end(self) -> None:
        """Flushes everything at the end of the session."""
        self._rest_all()
        self._report_unrecognized()
        if self.outcomes.ended and self._resumable:
            self.finished.append(Text(formatting.how_to_resume(self._session), style="dim"))
        self._busy = ""
        self._calls.clear()

    def _report_unrecognized(self) -> None:
        if self._unrecognized:
            self.finished.append(
                Text(f"i {formatting.unrecognized_lines(self._unrecognized)}", style="dim")
            )
            self._unrecognized = 0

    # -- messages ----------------------------------------------------------------------------------

    def _show_chunk(self, event: MessageChunk) -> None:
        if self._message is None or self._message[0] != event.message_id:
            self._rest()
            self._message = (event.message_id, MarkdownStream())
        self.finished += [pieces.message(block) for block in self._message[1].feed(event.text)]

    def _think(self, event: ThoughtChunk | MessageChunk) -> None:
        """Shows messages of a subagent like thoughts, since they are not addressed to the user."""
        thought = self._thoughts.get(event.parent)
        if thought is None or thought[0] != event.message_id:
            self._rest(event.parent)
            thought = self._thoughts[event.parent] = (event.message_id, TerminalSanitizer(), [])
        thought[2].append(thought[1].feed(event.text))

    def _withdraw(self, message_id: str) -> None:
        """Drops the unfinished part of a withdrawn message; finished blocks cannot be removed."""
        if self._message and self._message[0] == message_id:
            self._message = None
        stored = {who: one for who, one in self._thoughts.items() if one[0] != message_id}
        self._thoughts = stored

    def _rest(self, speaker: str | None = None) -> None:
        """Flushes the text of an agent or subagent, since it is complete.

        A subagent that runs in parallel does not interrupt its parent.
        """
        if self._message and speaker is None:
            self.finished += [pieces.message(block) for block in self._message[1].end()]
            self._message = None
        if thought := self._thoughts.pop(speaker, None):
            words = "".join(thought[2])
            if words.strip():
                self.finished.append(pieces.thought(words))

    def _rest_all(self) -> None:
        for speaker in (None, *self._thoughts):
            self._rest(speaker)

    # -- tool calls and turns ----------------------------------------------------------------------

    def _retitle(self, event: ToolUpdated) -> None:
        if event.title and event.call_id in self._calls:
            from msgspec.structs import replace

            call, at, began = self._calls[event.call_id]
            self._calls[event.call_id] = (replace(call, title=event.title), at, began)

    def _finish(self, entry: Entry, event: ToolFinished) -> None:
        call, at, _ = self._calls.pop(event.call_id, (None, entry.at, 0.0))
        depth = self._depths.get(event.call_id, 0)  # not removed: a subagent may continue
        seconds = seconds_between(at, entry.at) if call else None
        self.finished.append(
            pieces.finished(call, event.call_id, event.outcome, event.content, seconds, depth)
        )

    def _answered(self, entry: Entry, event: RequestAnswered) -> None:
        asked = self.requests.pop(event.request_id, None)
        if asked and asked.call_id in self._calls:  # exclude the waiting time from the call's time
            self._calls[asked.call_id] = (self._calls[asked.call_id][0], entry.at, self._clock())
        if asked is None or (event.by == "policy" and event.answer.option == "allow"):
            return
        if plan := plan_of(asked):
            self.finished.append(pieces.plan_text(plan))
        line = pieces.asked(asked).append(f"  → {formatting.answered(event)}", style="bold")
        self.finished.append(line)

    def _change_plan(self, steps: tuple[PlanStep, ...]) -> None:
        """Shows a new plan in full, or the changed steps of a known plan."""
        known = [step.text for step in self._plan] == [step.text for step in steps]
        changed = tuple(step for step in steps if step not in self._plan) if known else steps
        self._plan = steps
        if changed:
            self.finished.append(pieces.plan(changed))

    def _start_turn(self, event: TurnStarted) -> None:
        self._rest()
        self._busy = "working"
        if event.origin == "agent":
            self.finished.append(Text("● the agent continues by itself", style="cyan"))
        elif self._prompts and event.prompt:
            self.finished.append(pieces.prompt(event.prompt))

    def _introduce(self, event: AgentReady) -> None:
        if event.model:
            self.finished.append(Text(f"● {clean(event.model)}", style="dim"))

    def _settings(self, event: SettingsChanged) -> None:
        self.approve = event.approve or self.approve
        changed = [
            f"{name} {value}"
            for name, value in (
                ("model", event.model),
                ("mode", event.mode),
                ("approve", event.approve),
                ("forgot rule:", event.forgotten),
            )
            if value
        ]
        if changed:
            self.finished.append(Text(f"● {formatting.one_line(', '.join(changed))}", style="dim"))
