"""Model picker: models listed by the agent or the shipped table, or a typed name."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.core.agent_admin import Model
from tillerman.core.errors import TillermanError
from tillerman.harness.agent_admin import AgentAdmin
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.dialogs.picker import Picker, PickerRow

OURS = "from tillerman's model table: {} does not list its models"
THEIRS = "as listed by {}"
AS_TYPED = "as typed"


class ModelPicker(Picker):
    def __init__(self, management: AgentAdmin, agent: str, current: str | None) -> None:
        super().__init__(f"Models of {formatting.one_line(agent)}", told="querying …")
        self._management = management
        self._agent = agent
        self._current = current
        self._source = "querying …"

    def begin(self) -> None:
        self.run_worker(self._ask(), exclusive=True)

    async def _ask(self) -> None:
        agent = formatting.one_line(self._agent)
        try:
            models = await self._management.models(self._agent)
        except TillermanError as error:
            lines = [error.message, error.hint or "", "type a model name above"]
            self._source = "\n".join(formatting.one_line(line) for line in lines if line)
            self.report(self._source)
            return
        shipped = any(model.shipped for model in models)
        self._source = (OURS if shipped else THEIRS).format(agent)
        self.show_rows([self._row(model) for model in models], highlight=self._in_use(models))
        self.report(self._source)

    def _in_use(self, models: Sequence[Model]) -> str | None:
        return next((model.id for model in models if self._row(model).current), None)

    def _row(self, model: Model) -> PickerRow:
        current = self._current in (model.id, model.title) if self._current else model.current
        words = [word for word in ("default", "thinking") if getattr(model, word)]
        if model.context:
            words.append(f"{formatting.count(model.context)} context")
        if model.efforts:
            words.append(f"effort {', '.join(model.efforts)}")
        title = model.title if model.title != model.id else (model.provider or "")
        return PickerRow(model.id, model.id, title, ", ".join(words), current=current)

    def preview(self, row: PickerRow) -> None:
        self.report(self._source)

    def fitting(self, query: str) -> list[PickerRow]:
        name = query.strip()
        return super().fitting(query) or ([PickerRow(name, name, hint=AS_TYPED)] if name else [])
