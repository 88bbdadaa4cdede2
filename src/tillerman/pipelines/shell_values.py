"""Where a value may stand in a shell command: only where a quoted word stays one word.

Quotes protect a value as a word of its own. Inside other quotes, a here document, arithmetic or a
comment they mean something else, and what a program evaluates as code is code however it is quoted.
All of that is refused when the file is checked; more is refused than is unsafe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tillerman.pipelines.templates import Piece, TemplateError

_TOKEN = re.compile(
    r"""
    (?P<continued> \\\n )
  | (?P<escaped> \\. )
  | (?P<plain> \$\{\w+\} | \$\w+ | \$\# | <<< )
  | (?P<unsafe> \$' | \$" | \$\{ | \$\[ | \(\( | \[\[ | << | ` )
  | (?P<quote> ['"] )
  | (?P<end> [;&|\n()] )
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_DOUBLE_QUOTES = re.compile(
    r'(?P<plain>\\.|\$\{\w+\}|\$\w+)|(?P<unsafe>\$[({\[]|`)|(?P<quote>")', re.DOTALL
)
_UNSAFE = {
    "$'": "after a text in `$'…'`",
    '$"': 'after a text in `$"…"`',
    "${": "after an expansion such as `${name:-…}`",
    "$[": "after arithmetic",
    "((": "after arithmetic",
    "[[": "after `[[`",
    "<<": "after a here document",
    "`": "after a backquote",
    "$(": "after `$(…)` inside double quotes",
}
_QUOTES = {"'": "single quotes", '"': "double quotes", "#": "a comment"}
_BEFORE_A_COMMENT_SIGN = frozenset(" \t\n;&|()<>")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")
_REDIRECTION = re.compile(r"\d*(?:>>|<<<|<>|>\||[<>])&?[ \t]*[^ \t]*")
_KEYWORDS = frozenset({"!", "{", "if", "then", "else", "elif", "while", "until", "do", "time"})
_WRAPPERS = frozenset({"builtin", "command", "exec"})
_EVALUATING = frozenset(  # as the name of the command
    {
        ".", "alias", "bind", "compgen", "complete", "coproc", "declare", "enable", "fc", "getopts",
        "let", "mapfile", "read", "readarray", "source", "trap", "typeset", "unset", "wait",
    }
)  # fmt: skip
_EVALUATING_ANYWHERE = frozenset({"eval", "parallel", "script", "ssh", "su", "tmux", "watch"})
_DECLARING = frozenset({"export", "local", "readonly"})
_INTERPRETERS = re.compile(r"(?:a|ba|da|fi|k|z|)sh|busybox|python[0-9.]*|perl|ruby|node|php|lua")
_ATTRIBUTES = re.compile(r"\b(?:declare|typeset|local|readonly|export)[ \t]+-")


def check(pieces: Sequence[Piece]) -> None:
    """Raises TemplateError for the first value that does not stand by itself."""
    state = _State()
    for piece in pieces:
        if isinstance(piece, str):
            state.read(piece)
            continue
        if where := state.refused():
            problem = f"in a command, `{{{{ {piece.name} }}}}` cannot stand {where}"
            hint = f'set a variable first: `value={{{{ {piece.name} }}}}`, then use "$value"'
            raise TemplateError(piece.line, problem, hint)
        state.value()


class _State:
    """What the shell has read at the end of the text so far."""

    def __init__(self) -> None:
        self._quote = ""  # "'", '"' or "#": inside of what the text is now
        self._unsafe = ""  # what makes the rest hard to follow
        self._last = "\n"  # the last character outside of quotes
        self._command = ""  # the simple command so far; a blank in quotes is "_"
        self._all = ""

    def read(self, text: str) -> None:
        at = 0
        while at < len(text):
            at += self._step(text, at)
        self._all += text

    def value(self) -> None:
        self._add("_")

    def refused(self) -> str:
        """Why no value may stand here; empty if it may."""
        if self._unsafe:
            return _UNSAFE[self._unsafe]
        if self._quote:
            return f"inside {_QUOTES[self._quote]}"
        if _ATTRIBUTES.search(self._all):
            return "after a declaration with options"
        return _refused_word(self._command)

    def _add(self, text: str) -> None:
        self._command += text
        self._last = text[-1:] or self._last

    def _step(self, text: str, at: int) -> int:
        """Reads one token; returns its length."""
        char = text[at]
        if self._quote == "#":
            self._quote = "" if char == "\n" else "#"
            return 0 if char == "\n" else 1
        if self._quote == "'":
            self._quote = "" if char == "'" else "'"
            self._add("_" if char.isspace() else char)
            return 1
        if self._quote == '"':
            found = _IN_DOUBLE_QUOTES.match(text, at)
            if found and found.lastgroup == "unsafe":
                self._unsafe = self._unsafe or found[0]
            elif found and found.lastgroup == "quote":
                self._quote = ""
            token = found[0] if found else char
            self._add(re.sub(r"\s", "_", token))
            return len(token)
        return self._unquoted(text, at)

    def _unquoted(self, text: str, at: int) -> int:
        if text[at] == "#" and self._last in _BEFORE_A_COMMENT_SIGN:
            self._quote = "#"
            return 1
        found = _TOKEN.match(text, at)
        token = found[0] if found else text[at]
        match found.lastgroup if found else "":
            case "continued":
                return len(token)
            case "escaped":
                token = "__"
            case "unsafe":
                self._unsafe = self._unsafe or token
            case "quote":
                self._quote = token
            case "end":
                self._command = ""
                self._last = token
                return 1
            case _:
                pass
        self._add(token)
        return len(token)


def _refused_word(command: str) -> str:
    """Why no value may follow in a simple command, by the words before it."""
    word = re.split(r"[ \t]", command)[-1]
    if word.endswith("$"):
        return "after `$`"
    if "[" in word:
        return "inside `[…]`"
    words = [re.sub("[\"']", "", one) for one in command.split()]
    if _EVALUATING_ANYWHERE.intersection(one.rpartition("/")[2] for one in words):
        return "where it is evaluated as a command"
    names = _without_prefix(command[: len(command) - len(word)])
    if not names:
        return "" if _ASSIGNED.match(word) else "where a command is named"
    name = names[0]
    if name in _DECLARING:
        return "" if _ASSIGNED.match(word) else f"after `{name}` without `NAME=`"
    if name in _EVALUATING:
        return f"after `{name}`, which evaluates it"
    if names[-1] in ("-v", "-R") and name in ("test", "[", "printf"):
        return f"after `{name} {names[-1]}`, which evaluates it"
    option = re.fullmatch(r"-\w*[ceE]", names[-1])
    if option and any(_INTERPRETERS.fullmatch(one.rpartition("/")[2]) for one in names):
        return f"after `{names[-1]}`, where it is a program"
    return ""


def _without_prefix(command: str) -> list[str]:
    """The words of a simple command from its name on, without redirections."""
    words = [re.sub("[\"']", "", one) for one in _REDIRECTION.sub(" ", command).split()]
    while words and (words[0] in _KEYWORDS | _WRAPPERS or _ASSIGNED.match(words[0])):
        words.pop(0)
    return words
