"""Escape sequences of non-printable keys, as read from a terminal and used by dialogs."""

ENTER, BACKSPACE, ESCAPE, CLEAR = "\r", "\x7f", "\x1b", "\x15"
UP, DOWN, PAGE_UP, PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~"
