"""Keys that are no letter, as a terminal sends them and dialogs take them."""

ENTER, BACKSPACE, ESCAPE, CLEAR = "\r", "\x7f", "\x1b", "\x15"
