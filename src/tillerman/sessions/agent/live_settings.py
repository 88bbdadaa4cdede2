"""Current mode, model, preset and version of a session, as set by the user and the agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tillerman.agents.stdio.capability_check import refuse_open_gate, undeclared_asks
from tillerman.core.agent import Mode, Prompt
from tillerman.core.errors import Unsupported
from tillerman.core.events import AgentReady, Event, Notice, SettingsChanged
from tillerman.core.permission import DecisionContext
from tillerman.core.session_options import Preset, with_options
from tillerman.core.transcript.session_titles import added_words, is_of_added_words
from tillerman.core.version_check import warning
from tillerman.sessions.agent.connection import AgentConnection
from tillerman.sessions.log.event_writer import EventWriter

if TYPE_CHECKING:
    from tillerman.config.model_table import Models


class LiveSettings:
    def __init__(
        self,
        context: DecisionContext,
        connection: AgentConnection,
        log: EventWriter,
        models: Callable[[], Models],
    ) -> None:
        self._context = context
        self._connection = connection
        self._log = log
        self._models = models
        self._version: str | None = None  # of the agent, as it reported it
        self._prompt = self._added = ""

    @property
    def context(self) -> DecisionContext:
        """The context for permission decisions, with the current agent."""
        return replace(self._context, agent=self._connection.agent.info.name)

    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None:
        """Sets mode and model. The mode applies immediately; the agent confirms the model."""
        if mode:
            self.set_mode(mode)
        if model:
            own = self._models().own(self._connection.agent.info.name, model)
            if own.warning:
                self._log.write_own(Notice(level="warning", kind="settings", text=own.warning))
            model = own.name
            self._connection.spec = replace(self._connection.spec, model=model)
        if self._connection.begun:
            conversation = (
                await self._connection.open()
            )  # it may have started with the previous settings
            await conversation.configure(model=model, mode=mode)
        elif model:
            self._log.write_own(SettingsChanged(model=model))

    def approve(self, preset: Preset) -> None:
        """Changes the preset immediately; refused for an agent that applies it only at launch."""
        info, spec = (
            self._connection.agent.info,
            with_options(self._connection.spec, approve=preset),
        )
        refuse_open_gate(info, spec)
        asks = not undeclared_asks(info) and "surface" not in spec.native.options
        if self._connection.begun and (info.preset_at_launch or not asks):
            raise Unsupported(
                info.title,
                "changing the preset during a session",
                hint="resume the session with --approve",
            )
        self._connection.approve(preset)
        self._log.write_own(SettingsChanged(approve=preset))

    def set_mode(self, mode: Mode) -> None:
        self._connection.spec = replace(self._connection.spec, mode=mode)
        self._context = replace(self._context, mode=mode)
        self._log.write_own(SettingsChanged(mode=mode))

    def prompted(self, prompt: Prompt, sent: str = "") -> None:
        """Records the prompt; `sent` is the full text, including what tillerman added."""
        self._prompt, self._added = prompt.text, added_words(prompt, sent)

    def without_foreign_title(self, event: SettingsChanged) -> SettingsChanged:
        """Drops a title that the agent derived from text that tillerman added."""
        if event.title and is_of_added_words(event.title, self._prompt, self._added):
            return replace(event, title=None)
        return event

    def knows(self, event: Event) -> bool:
        """Whether the event only repeats known settings, or is empty."""
        return event in (SettingsChanged(mode=self._context.mode), SettingsChanged())

    def changed(self, event: SettingsChanged) -> None:
        self._connection.model = event.model or self._connection.model
        mode = event.mode
        if mode in ("plan", "ask", self._connection.spec.mode):  # stricter, or set by the user
            self._context = replace(self._context, mode=mode)

    def ready(self, event: AgentReady) -> None:
        self._connection.model = event.model or self._connection.model
        self._connection.native_id = event.native_id
        self._connection.spec = replace(self._connection.spec, fork=False)
        if event.version != self._version:
            self._version = event.version
            self._check_version(event.version)

    def _check_version(self, version: str | None) -> None:
        info = self._connection.agent.info
        if text := warning(info.title, info.tested, version):
            self._log.write_own(Notice(level="warning", kind="version", text=text))
