"""Mode picker: agent, plan or ask, as far as the agent supports them."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tillerman.core.agent import Agent
from tillerman.core.capabilities import capabilities
from tillerman.surfaces.rendering import formatting, tables
from tillerman.surfaces.tui.dialogs.picker import Picker, PickerRow


class ModePicker(Picker):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+tab,tab", "move('cursor_down')", "Next", id="mode-next", show=False),
    ]

    def __init__(self, agent: Agent, current: str) -> None:
        able = "modes" in capabilities(agent)
        why = f"{formatting.one_line(agent.info.title)} supports only agent mode"
        rows = [
            PickerRow(mode, mode, hint=why, off=True)
            if mode != "agent" and not able
            else PickerRow(mode, mode, hint=meaning, current=mode == current)
            for mode, meaning in tables.MODES.items()
        ]
        super().__init__("Mode", rows, filtered=False)

    def preview(self, row: PickerRow) -> None:
        self.report(row.told if row.off else "")
