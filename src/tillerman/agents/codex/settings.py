"""Model, effort, mode and sandbox of a Codex thread, sent again with each turn."""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.agents.codex.launch import ASKS, collaboration, sandbox_policy
from tillerman.agents.decoding.fields import Table, table, text
from tillerman.core.agent import Mode, SessionSpec
from tillerman.core.events import Event, SettingsChanged


class CodexSettings:
    def __init__(self, spec: SessionSpec) -> None:
        self._spec = spec
        self._mode: Mode = spec.mode
        self._requested_model = spec.model  # by the user
        # A resumed thread may still be in plan mode.
        self._planned = spec.mode == "plan" or spec.resume is not None
        self.model = ""  # as reported by Codex
        sandbox_policy(spec, spec.mode)  # rejects an invalid option before anything starts

    def opened(self, answer: Table) -> None:
        self.model = text(answer, "model")

    def configure(self, model: str | None, mode: Mode | None) -> None:
        self._requested_model = model or self._requested_model
        self._mode = mode or self._mode
        self._planned = self._planned or self._mode == "plan"

    def turn(self) -> Table:
        """The parameters for `turn/start`."""
        params = self.params(self._planned)
        if self._spec.output_schema is not None:
            params["outputSchema"] = dict(self._spec.output_schema)
        return params

    def params(self, with_mode: bool) -> Table:
        model = self._requested_model or self.model
        params: Table = {**ASKS, "sandboxPolicy": sandbox_policy(self._spec, self._mode)}
        if self._requested_model:
            params["model"] = self._requested_model
        if self._spec.effort:
            params["effort"] = self._spec.effort
        if with_mode and model:
            params["collaborationMode"] = collaboration(self._mode, model, self._spec.effort)
        return params

    def told(self, settings: Table) -> Iterator[Event]:
        """Handles `thread/settings/updated`."""
        model = text(settings, "model")
        if model and self.model and model != self.model:
            yield SettingsChanged(model=model)
        self.model = model or self.model
        planning = text(table(settings, "collaborationMode"), "mode") == "plan"
        if planning and self._mode != "plan":
            self._mode = "plan"
        elif not planning and self._mode == "plan" and settings.get("collaborationMode"):
            self._mode = "agent"
        else:
            return
        yield SettingsChanged(mode=self._mode)
