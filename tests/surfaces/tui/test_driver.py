"""The bytes of a terminal are decoded to the key that was pressed."""

from __future__ import annotations

import pytest

from tillerman.surfaces.tui.terminal.quiet_driver import _Parser


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("\x1b1", "alt+1"),
        ("\x1b9", "alt+9"),
        ("\x1b[49;3u", "alt+1"),
        ("¡", "inverted_exclamation_mark"),
        ("\x1b[5;5~", "ctrl+pageup"),
        ("\x1b[Z", "shift+tab"),
    ],
)
def test_a_sequence_is_a_key(sent: str, key: str) -> None:
    (event,) = _Parser().feed(sent)
    assert getattr(event, "key", None) == key
