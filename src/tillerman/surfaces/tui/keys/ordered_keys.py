"""Mixin that handles keys in typing order across focus changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.widgets import Input

if TYPE_CHECKING:
    from textual.widget import Widget as _Base
else:
    _Base = object  # the first widget base decides the style and whether it can have the focus


class OrderedKeys(_Base):
    """Forwards keys to the widget that has the focus now, and runs bindings synchronously.

    Without it, the screen handles a key only after later keys were delivered to the widget that had
    the focus before, where a letter may trigger any action.
    """

    async def _on_key(self, event: events.Key) -> None:
        focused = self.screen.focused
        if focused is not None and focused is not self:
            _taken(event)
            focused.post_message(events.Key(event.key, event.character))
        elif not (isinstance(self, Input) and event.is_printable) and await self._run_binding(
            event.key
        ):
            _taken(event)

    async def _run_binding(self, key: str) -> bool:
        """Runs the binding of the widget or its screen for this key."""
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
