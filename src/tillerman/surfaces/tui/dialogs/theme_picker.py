"""Theme picker: previews the highlighted theme on the whole screen."""

from __future__ import annotations

from tillerman.surfaces.tui import themes
from tillerman.surfaces.tui.dialogs.picker import Picker, PickerRow


class ThemePicker(Picker):
    """Restores the previous theme if none is chosen."""

    DEFAULT_CSS = """
    ThemePicker { align: right bottom; background: transparent; }
    ThemePicker > #frame { width: 44; max-height: 80%; }
    """

    def __init__(self, names: list[str], current: str, dark: dict[str, bool]) -> None:
        own = [theme.name for theme in themes.OWN]
        ordered = [*own, *sorted(name for name in names if name not in own)]
        rows = [
            PickerRow(
                name, name, "dark" if dark.get(name, True) else "light", current=name == current
            )
            for name in ordered
        ]
        super().__init__("Themes", rows)
        self._before = current

    def preview(self, row: PickerRow) -> None:
        self.app.theme = row.key

    def action_close(self) -> None:
        self.app.theme = self._before
        super().action_close()
