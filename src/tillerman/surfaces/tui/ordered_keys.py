"""Keys that are obeyed in the order they were typed, wherever the focus went meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.widgets import Input

if TYPE_CHECKING:
    from textual.widget import Widget as _Base
else:
    _Base = object  # the first base that is a widget gives its looks and whether it has the focus


class OrderedKeys(_Base):
    """Mixed into what has the focus by turns: by itself, a key is heard by the screen only after
    the next ones were given to whoever had the focus before, and a letter may do anything there."""

    async def _on_key(self, event: events.Key) -> None:
        focused = self.screen.focused
        if focused is not None and focused is not self:
            _taken(event)
            focused.post_message(events.Key(event.key, event.character))
        elif not (isinstance(self, Input) and event.is_printable) and await self._obey(event.key):
            _taken(event)

    async def _obey(self, key: str) -> bool:
        """What the widget itself or its screen does by this key."""
        for node in (self, self.screen):
            bindings = node._bindings.copy()
            bindings.apply_keymap(self.app._keymap)
            for binding in bindings.key_to_bindings.get(key, ()):
                if await self.app.run_action(binding.action, node):
                    return True
        return False


def _taken(event: events.Key) -> None:
    event.stop()
    event.prevent_default()
