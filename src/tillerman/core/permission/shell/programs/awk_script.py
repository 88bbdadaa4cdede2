"""Checks whether an awk script does nothing but print.

awk writes output by `>`, `>>` and `|` after a print, reads input by `getline` and a changed
`ARGV`, and runs code by `system` and gawk's `@`. A script passes if it has none of them outside of
strings and patterns. If a `/` could begin a pattern or be a division, it does not pass.
"""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsed_script import is_open

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\[^\n])*")|(?P<name>[A-Za-z_]\w*)|(?P<space>[ \t]+)"""
    r"""|(?P<end>[\n;}])|(?P<number>\d[\w.]*)|(?P<operator>\|\||&&|>=|<=|==|!=|>>|.)""",
    re.DOTALL,
)
_PATTERN = re.compile(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?(?:[^\]\\\n/]|\\[^\n])*\])*/")
_REFUSED = frozenset({
    "system", "getline", "close", "fflush", "function", "func", "ENVIRON", "PROCINFO", "ARGV",
    "ARGC", "@", '"', "`", "|", ">>",
})  # fmt: skip
OUTPUT = re.compile(r'>>?\s*"([^"\\\n]+)"')  # a file that a print is redirected to
_LONGEST = 3_000


def only_prints(script: str) -> bool:
    if len(script) > _LONGEST or is_open(script):
        return False
    at, depth, last = 0, 0, ""
    printing = False
    while at < len(script):
        if script[at] == "/":
            pattern = _PATTERN.match(script, at)
            if _may_divide(last):
                if "/" in script[at + 1 :]:
                    return False
            elif pattern is None:
                return False
            else:
                at, last = pattern.end(), "/"
                continue
        if script[at] == "#":
            line_end = script.find("\n", at)
            at = line_end if line_end >= 0 else len(script)
            continue
        match = _TOKEN.match(script, at)
        if match is None or match[0] in _REFUSED:
            return False
        at, text = match.end(), match[0]
        if match.lastgroup == "space":
            continue
        if text in ("print", "printf"):
            printing, depth = True, 0
        elif text in ("(", "["):
            depth += 1
        elif text in (")", "]"):
            depth -= 1
        elif text in (";", "}") or (text == "\n" and depth <= 0 and _ends_value(last)):
            printing = False
        elif text == ">" and printing and depth <= 0:
            return False
        last = text
    return True


def _ends_value(last: str) -> bool:
    """Whether a newline after this token ends a statement: after an operator, awk continues."""
    return last in (")", "]", "/") or last[-1:].isalnum() or last[-1:] in ("_", '"')


def _may_divide(last: str) -> bool:
    """Whether a `/` after this token may be a division."""
    return bool(last) and (last in (")", "]", "$", "/") or last[-1].isalnum() or last[-1] in '_"+-')
