"""What tree-sitter-bash finds in a line: commands with literal names."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tree_sitter import Language, Node, Parser
from tree_sitter_bash import language

from tests.core.permission.differential.reading import Reading

_LITERAL = frozenset({"word", "raw_string", "string", "concatenation", "string_content", "number"})


class Difference(NamedTuple):
    """A kind of command that tree-sitter finds and the reader does not name, and why."""

    reason: str
    line: str  # where in a line such a thing is found; NAME is the command in question
    names: str = ".*"  # of commands

    def explains(self, name: str, line: str) -> bool:
        where = self.line.replace("NAME", re.escape(name))
        return bool(re.fullmatch(self.names, name) and re.search(where, line))


# Where tree-sitter-bash is known to read a line otherwise than bash does.
EXPLAINED = (
    Difference(
        "a reserved word of bash is a command for it",
        r"\b(?:coproc|time)\b|!",
        r"!|\{|\}|\[\[|\]\]|case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time"
        r"|until|while",
    ),
    Difference(
        "a function is not named where it does nothing",
        r"\bNAME\s*\(\s*\)|\bfunction\s+NAME",
    ),
    Difference("an unusual blank ends a word for it", r"[\v\f\r\x01\u00a0]"),
    Difference("a continued line ends a word for it", r"\\\n"),
    Difference("a brace in the name of a file ends a group for it", r"[<>]\s*[^\s;&|]*[{}]"),
    Difference("an escape right after a quote begins a word for it", r"['\"]\\"),
    Difference("it keeps the escapes of backticks", r"`[^`]*\\"),
    Difference("an escaped blank is no part of a word for it", r"\\ "),
    Difference("backticks behind a word begin another for it", r"NAME`"),
    Difference("a sum in a here-document is a substitution for it", r"<<[^\n]*\n(?:.|\n)*\$\(\("),
    Difference(
        "more behind the end of a here-document is the end for it",
        r"<<-?[ \t]*['\"\\]*(\w+)['\"]?(?:.|\n)*\n[ \t]*\1[^\w\n]",
    ),
    Difference(
        "an assignment in the line that names a here-document ends it for it",
        r"<<-?[ \t]*['\"\\]*\w+[^\n]*[ \t]\w+=",
    ),
    Difference("a process substitution behind a word begins another for it", r"NAME[<>]\("),
    Difference(
        "a parameter behind another in the name of a file is a command for it",
        r"[<>]\s*[^\s;&|]*\$NAME",
    ),
    Difference("a ! at the beginning of a word is a reserved word for it", r"!['\"]"),
    Difference("a sum with a ; in it is a substitution for it", r"\$\(\([^\n]*;[^\n]*\)\)"),
)


@cache
def _parser() -> Parser:
    return Parser(Language(language()))


def commands_seen(line: str) -> list[str] | None:
    """Base names of the commands with literal names; None if it could not parse the line."""
    source = line.encode(errors="surrogateescape")
    root = _parser().parse(source).root_node
    if root.has_error:
        return None
    names: list[str] = []
    pending = [root]
    while pending:
        node = pending.pop()
        pending += node.children
        if node.type == "command" and (name := node.child_by_field_name("name")):
            text = _literal(name)
            if text:
                names.append(text.rpartition("/")[2])
    return names


def unexplained(line: str, reported: Reading) -> list[str]:
    """Commands that tree-sitter finds, and that the reader neither names nor doubts."""
    if reported.unread or reported.doubts:
        return []
    names = {name for name in commands_seen(line) or () if not reported.names(name)}
    return sorted(name for name in names if not any(d.explains(name, line) for d in EXPLAINED))


def _literal(node: Node) -> str:
    """The text of a name without expansions."""
    if any(child.type not in _LITERAL for child in _below(node)):
        return ""
    text = (node.text or b"").decode(errors="surrogateescape")
    if "'" in text or '"' in text:
        plain = re.fullmatch(r"'([^']*)'|\"([^\"\\$`]*)\"", text)
        return (plain[1] or plain[2] or "") if plain else ""
    if re.search(r"[*?\[\]{}~]", text):
        return ""
    return re.sub(r"\\(.)", r"\1", text.replace("\\\n", ""), flags=re.DOTALL)


def _below(node: Node) -> list[Node]:
    return [one for child in node.named_children for one in (child, *_below(child))]
