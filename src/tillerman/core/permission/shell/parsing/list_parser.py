"""Parser of shell lists and pipelines: separators and operators between commands."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsing.lexer import Lexer
from tillerman.core.permission.shell.parsing.syntax import (
    AndOr,
    BackgroundList,
    Node,
    Pipeline,
    Script,
    UnparsableCommand,
)
from tillerman.core.permission.shell.parsing.word_reading import DELIMITERS

_END = r"(?=[ \t\n|&;<>()]|\\\n|\Z)"
_POSIX_WORDS = r"if|then|elif|else|fi|while|until|do|done|for|case|esac|in|\{|\}|!"
_RESERVED = {
    "posix": re.compile(rf"(?:{_POSIX_WORDS}){_END}"),
    "bash": re.compile(rf"(?:{_POSIX_WORDS}|select|function|time|coproc|\[\[){_END}"),
}
_SEPARATORS = {
    "posix": re.compile(r"&&|\|\||;;|[;&|\n]"),
    "bash": re.compile(r"&&|\|\||;;&|;;|;&|\|&|&(?!>)|[;|\n]"),
}


class ListParser(Lexer):
    def next_command(self) -> Script | None:
        """One complete command, to the end of its line: the unit that a shell reads and runs."""
        self._skip_lines()
        if not self.peek():
            self.read_documents()
            return None
        start = self.at
        commands: list[Node] = []
        while True:
            node = self._and_or()
            self.blanks()
            separator = self._separator()
            if separator == "&":
                node = BackgroundList(node, *self._span(start))
            commands.append(node)
            if separator in (";", "&"):
                self.at += 1
                self._allow_separator(separator)
                self.blanks()
                separator = self._separator() if self.peek() in ("", "\n") else "more"
            if separator == "more":
                continue
            if separator not in ("", "\n") or (not separator and self.peek()):
                raise UnparsableCommand(f"unexpected {self._shown()}")
            self.at += separator == "\n"
            self.read_documents()
            return Script(tuple(commands), *self._span(start))

    def whole_script(self) -> Script:
        commands: list[Node] = []
        while (script := self.next_command()) is not None:
            commands += script.commands
        return Script(tuple(commands), *self._span(0))

    # -- lists -----------------------------------------------------------------------------------

    def script_until(self, close: str) -> Script:
        """Parses commands up to and including `)` or `}`; may be empty."""
        outer, self._documents = self._documents, []
        self._skip_lines()
        if close == ")" and self.peek() == ")":
            script = Script((), *self._span(self.at))
        else:
            script = self._list(close, empty=True)
        if close == "}" and self._reserved() != "}":
            raise UnparsableCommand(f"missing {close}")
        if close == ")" and self.peek() != ")":
            raise UnparsableCommand(f"missing {close}")
        self.at += 1
        if self._documents:
            self.problems.append("a here-document that is open where its commands end")
        self._documents = outer + self._documents
        return script

    def _list(self, *ends: str, empty: bool = False) -> Script:
        """Parses commands up to, but not including, a word or character that ends them."""
        self._skip_lines()
        start = self.at
        commands: list[Node] = []
        while not self._is_end(ends):
            before = self.at
            node = self._and_or()
            self.blanks()
            separator = self._separator()
            if separator == "&":
                node = BackgroundList(node, *self._span(before))
            commands.append(node)
            if separator in (";", "&", "\n"):
                self._skip_separator(separator)
            elif not self._is_end(ends):
                raise UnparsableCommand(f"unexpected {self._shown()}")
        if not commands and not empty:
            raise UnparsableCommand(f"no command before {ends[0]}")
        return Script(tuple(commands), *self._span(start))

    def _is_end(self, ends: tuple[str, ...]) -> bool:
        self.blanks()
        c = self.peek()
        if not c:
            raise UnparsableCommand(f"missing {ends[0]}")
        if c == ")":
            return ")" in ends
        if c == ";" and ";;" in ends:
            return self._separator() in (";;", ";&", ";;&")
        return self._reserved() in ends

    def _separator(self) -> str:
        self.peek()
        match = _SEPARATORS[self.dialect].match(self.text, self.at)
        if match is None:
            return ""
        if self._continued and match[0] in ("&", "|", ";"):
            return self._continued_operator(match[0])
        return match[0]

    def _continued_operator(self, first: str) -> str:
        """Removes a line continuation inside of an operator."""
        if not self.text.startswith("\\\n", self.at + 1):
            return first
        self.problems.append("an operator that is continued on the next line")
        at = self.at + 1
        while self.text.startswith("\\\n", at):
            at += 2
        self.text = self.text[: self.at + 1] + self.text[at:]
        self.located = False
        return self._separator()

    def _allow_separator(self, separator: str) -> None:
        """`&;` is an error in bash, but not in zsh."""
        self.blanks()
        if separator == "&" and self._separator() == ";":
            self.problems.append("; after &")
            self.at += 1

    def _skip_separator(self, separator: str) -> None:
        self.at += 1
        self._allow_separator(separator)
        if separator == "\n":
            self.read_documents()
        self._skip_lines()

    def _skip_lines(self) -> None:
        while True:
            self.blanks()
            if self.peek() != "\n":
                return
            self.at += 1
            self.read_documents()

    def _and_or(self) -> Node:
        start = self.at
        left = self._pipeline()
        while True:
            self.blanks()
            separator = self._separator()
            if separator not in ("&&", "||"):
                return left
            self.at += 2
            self._skip_lines()
            left = AndOr(left, "&&" if separator == "&&" else "||", self._pipeline(),
                         *self._span(start))  # fmt: skip

    def _pipeline(self) -> Node:
        self.blanks()
        start = self.at
        negated = prefixed = False
        while (word := self._reserved()) in ("!", "time"):
            self.at += len(word)
            self.blanks()
            prefixed = True
            negated ^= word == "!"
            if word == "time" and self.posix_mode and self.peek() in ("-", "$", '"', "'", "\\"):
                self.problems.append("time is a program in POSIX mode, or not")
            while word == "time" and (option := re.compile(r"-p?-?(?=\s)").match(
                self.text, self.at)):  # fmt: skip
                self.at = option.end()
                self.blanks()
        if prefixed and self.bash and self.peek() in ("", "\n", ";"):
            return Pipeline((), negated, *self._span(start))
        commands = [self._command()]
        while True:
            self.blanks()
            separator = self._separator()
            if separator not in ("|", "|&"):
                break
            self.at += len(separator)
            self._skip_lines()
            while self._reserved() == "!":
                self.problems.append("! after |")
                self.at += 1
                self.blanks()
            commands.append(self._command())
        if len(commands) == 1 and not negated:
            return commands[0]
        return Pipeline(tuple(commands), negated, *self._span(start))

    def _reserved(self) -> str:
        """The reserved word at this position, if any."""
        self.peek()
        match = _RESERVED[self.dialect].match(self.text, self.at)
        if match:
            return match[0]
        if self._continued:
            return self._continued_word()
        return ""

    def _continued_word(self) -> str:
        match = re.compile(r"(?:[a-z!{}\[]|\\\n)+").match(self.text, self.at)
        if match is None or "\\\n" not in match[0]:
            return ""
        joined = match[0].replace("\\\n", "")
        if not _RESERVED[self.dialect].fullmatch(joined):
            return ""
        self.problems.append("a reserved word that is continued on the next line")
        self.text = self.text[: self.at] + joined + self.text[match.end() :]
        self.located = False
        return joined

    def _command(self) -> Node:
        raise NotImplementedError

    def _span(self, start: int) -> tuple[int, int]:
        return (start, self.at) if self.located else (-1, -1)

    def _shown(self) -> str:
        c = self.peek()
        return repr(c) if c in DELIMITERS and not c.isprintable() else c or "end of the line"
