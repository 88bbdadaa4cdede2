"""Removes control sequences and invisible characters from text for a terminal."""

from __future__ import annotations

import re

# The body of an OSC, DCS, APC, PM or SOS ends at its terminator, and also at the end of the line:
# an unterminated one must not hide all text that follows.
_BODY = r"[^\x07\x18\x1a\x1b\x9c\r\n]*"
_CSI = r"[0-?]*[ -/]*"
_SEQUENCE = (
    rf"\x1b(?:\[{_CSI}[@-~]?|[\]P_^X]{_BODY}(?:\x1b\\|[\x07\x18\x1a\x9c])?|[ -/]*[0-~]?)"
    rf"|\x9b{_CSI}[@-~]?"
    rf"|[\x90\x98\x9d-\x9f]{_BODY}(?:\x1b\\|[\x07\x18\x1a\x9c])?"
)
_UNFINISHED = re.compile(
    rf"(?P<string>(?:\x1b[\]P_^X]|[\x90\x98\x9d-\x9f]){_BODY}(?P<ending>\x1b?))\Z"
    rf"|(?P<csi>(?:\x1b\[|\x9b){_CSI})\Z"
    r"|(?P<escape>\x1b[ -/]*)\Z"
)
_INVISIBLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRTY = re.compile(rf"[{_CONTROL}{_INVISIBLE}\u2028\u2029\ud800-\udfff]")
_PARTS = re.compile(
    r"(?P<newline>\r\n?|[\u2028\u2029])"
    r"|(?P<broken>[\ud800-\udfff])"  # a lone surrogate cannot be sent to a terminal
    rf"|{_SEQUENCE}|[{_CONTROL}{_INVISIBLE}]"
)


# Valid in JSON but interpreted by a terminal: DEL, C1, and bidi control characters.
_OBEYED = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2(?:\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xa9])"
)


def json_safe(data: bytes) -> bytes:
    """Escapes those characters: equivalent JSON that no terminal interprets."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _OBEYED.sub(lambda one: b"\\u%04x" % ord(one[0].decode()), data)


def clean(text: str) -> str:
    """The text with newlines and tabs, without any other control or invisible character."""
    if _DIRTY.search(text) is None:
        return text
    return _PARTS.sub(_replacement, text)


class TerminalSanitizer:
    """Sanitizes streamed text; the output does not depend on where the input was split."""

    def __init__(self) -> None:
        self._carry = ""  # a short equivalent of the unfinished sequence
        self._after_return = False

    def feed(self, text: str) -> str:
        if not text:
            return ""
        if self._after_return and text[0] == "\n":
            text = text[1:]
        self._after_return = False
        text = self._carry + text
        self._carry = ""
        if _DIRTY.search(text) is None:
            return text
        if unfinished := _UNFINISHED.search(text):
            self._carry = _shortest(unfinished)
            text = text[: unfinished.start()]
        else:
            self._after_return = text.endswith("\r")
        return clean(text)


def _replacement(part: re.Match[str]) -> str:
    match part.lastgroup:
        case "newline":
            return "\n"
        case "broken":
            return "\ufffd"
        case _:
            return ""


def _shortest(unfinished: re.Match[str]) -> str:
    """A short sequence with the same parser state, so that an endless one takes no memory."""
    text = unfinished.group()
    match unfinished.lastgroup:
        case "csi":
            return "\x1b[ " if " " <= text[-1] <= "/" else "\x1b["
        case "escape":
            return "\x1b " if len(text) > 1 else "\x1b"
        case _:
            return "\x1b]" + unfinished["ending"]


# Visible symbols shown to a person in place of characters that a terminal would interpret.
_SIGNS = (
    {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
    | {0x7F: 0x2421}
    | {code: f"⟨{code:02x}⟩" for code in range(0x80, 0xA0)}
    | {
        code: f"⟨{code:04x}⟩"
        for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    }
    | {0x2028: "\n", 0x2029: "\n"}
    | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
)


def reveal(text: str) -> str:
    """Replaces each control, escape and bidi character by a visible symbol.

    Characters that only shape their neighbours, such as the joiners of emoji, are removed.
    """
    if _DIRTY.search(text) is None:
        return text
    return clean(text.replace("\r\n", "\n").translate(_SIGNS))


class ControlCharRevealer:
    """Reveals streamed text; a line ending may be split between two chunks."""

    def __init__(self) -> None:
        self._carry = ""

    def feed(self, text: str) -> str:
        text = self._carry + text
        self._carry = "\r" if text.endswith("\r") else ""
        return reveal(text[: len(text) - len(self._carry)])

    def end(self) -> str:
        """Flushes a carriage return at the end of the text."""
        return reveal(self._carry)
