"""Agent output reaches a terminal as text, never as control sequences."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tillerman.core.terminal_sanitizer import (
    ControlCharRevealer,
    TerminalSanitizer,
    clean,
    json_safe,
    reveal,
)

HOSTILE = {
    "colours": ("\x1b[1;31mred\x1b[0m", "red"),
    "a screen clear": ("a\x1b[2J\x1b[Hb", "ab"),
    "private modes": ("a\x1b[?1049hb", "ab"),
    "a window title": ("\x1b]0;owned\x07text", "text"),
    "a clipboard write": ("\x1b]52;c;cm0gLXJm\x1b\\text", "text"),
    "a hyperlink": ("\x1b]8;;http://evil.example\x07click\x1b]8;;\x07", "click"),
    "a device control string": ('\x1bP$q"p\x1b\\text', "text"),
    "an application command": ("\x1b_Gf=100;AAAA\x1b\\text", "text"),
    "a privacy message": ("\x1b^secret\x1b\\text", "text"),
    "a start of string": ("\x1bXsecret\x1b\\text", "text"),
    "a charset switch": ("\x1b(0lqqk\x1b(B", "lqqk"),
    "a full reset": ("\x1bctext", "text"),
    "C1 control sequences": ("\x9b31mred\x9d0;title\x9ctext\x90x\x9c", "redtext"),
    "a bell and a backspace": ("pass\x07word\x08\x08", "password"),
    "a carriage return that hides": ("rm -rf /\recho hello", "rm -rf /\necho hello"),
    "lines of another system": ("a\r\nb\r\n", "a\nb\n"),
    "a bidi override": ("user\u202eadmin\u202c\u2066x\u2069", "useradminx"),
    "zero-width letters": ("pass\u200bword\u2060\ufeff", "password"),
    "tag characters": ("hi\U000e0068\U000e0069", "hi"),
    "variation selectors": ("a\ufe0f\U000e0100b", "ab"),
    "separators that only some take for a new line": ("a\u2028b\u2029c", "a\nb\nc"),
    "half a character": ("a\ud800b", "a\ufffdb"),
    "an unfinished colour": ("text\x1b[31", "text"),
    "an unfinished title hides its line alone": ("a\x1b]0;x\nsecond line", "a\nsecond line"),
    "a sequence inside another": ("\x1b]0;\x1b[31mred", "red"),
}


@pytest.mark.parametrize(("hostile", "harmless"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_becomes_harmless(hostile: str, harmless: str) -> None:
    assert clean(hostile) == harmless


@pytest.mark.parametrize(
    "text", ["plain text\n\twith a tab", "Grüße, 日本語, العربية, עברית", "│ box ✓ → 🎉"]
)
def test_text_for_people_stays_as_it_is(text: str) -> None:
    assert clean(text) is text


_PIECES = [
    "\x1b", "[", "]", "P", "\\", "\x07", "\x9b", "\x9c", "\x9d", "\r", "\n", "\t", "31", ";", "m",
    "(", "B", " ", "text", "é", "\u202e", "\u200b", "\ud800", "\x18", "/", "\x85",
]  # fmt: skip
_pieces = st.lists(st.sampled_from(_PIECES))


@given(_pieces, st.data())
def test_where_a_text_is_cut_makes_no_difference(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    cleaner = TerminalSanitizer()
    out = [cleaner.feed(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(out) == clean(text)


@given(_pieces)
def test_cleaning_twice_equals_cleaning_once(pieces: list[str]) -> None:
    once = clean("".join(pieces))
    assert clean(once) == once


def test_a_sequence_without_an_end_takes_no_memory() -> None:
    cleaner = TerminalSanitizer()
    piece = 100_000
    for start, filler in (("\x1b]0;", "x"), ("\x1b[", "1"), ("\x1b", "/")):
        cleaner.feed(start)
        flood = filler * piece
        tracemalloc.start()
        for _ in range(50):
            assert cleaner.feed(flood) == ""
        stored, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert stored < piece / 10
        assert most < 10 * piece
        cleaner.feed("\n")


def test_sanitized_json_means_the_same_and_holds_no_terminal_control() -> None:
    obeyed = "\x7f\x80\x9b\x9f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"
    text = f"ä{obeyed}€\u200d👍\ufe0f{obeyed}"
    data = msgspec.json.encode({"text": text, obeyed: [text]})
    safe = json_safe(data)
    assert not set(obeyed) & set(safe.decode())
    assert "ä" in safe.decode()
    assert msgspec.json.decode(safe) == {"text": text, obeyed: [text]}


@given(st.text())
def test_json_that_was_made_safe_decodes_to_what_it_was(text: str) -> None:
    data = msgspec.json.encode(text)
    assert msgspec.json.decode(json_safe(data)) == text


# -- what is shown instead -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("\x1b[31mred", "␛[31mred"),
        ("a\x07b\x00c\x7fd", "a␇b␀c␡d"),
        ("\x9b31m\x85", "⟨9b⟩31m⟨85⟩"),
        ("one\r\ntwo\rthree", "one\ntwo␍three"),
        ("\u202eevil\u2066", "⟨202e⟩evil⟨2066⟩"),
        ("👩\u200d💻 and ❤\ufe0f", "👩💻 and ❤"),
        ("a\u2028b\ud800", "a\nb\ufffd"),
    ],
)
def test_terminal_controls_are_shown_as_symbols(text: str, seen: str) -> None:
    assert reveal(text) == seen
    assert clean(reveal(text)) == seen


@given(st.text(alphabet="ab\r\n\x1b[0m\u202e\x9b"), st.integers(0, 20))
def test_the_shown_text_does_not_depend_on_where_it_was_cut(text: str, at: int) -> None:
    revealer = ControlCharRevealer()
    pieces = revealer.feed(text[:at]) + revealer.feed(text[at:])
    assert pieces == reveal(text.removesuffix("\r"))
