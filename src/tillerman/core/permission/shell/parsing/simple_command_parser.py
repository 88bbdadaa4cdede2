"""Parser of simple commands: assignments, words, redirections and here-documents."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsing.list_parser import ListParser
from tillerman.core.permission.shell.parsing.syntax import (
    Assignment,
    FunctionDefinition,
    HereDocument,
    Literal,
    Node,
    Redirection,
    SimpleCommand,
    Subscript,
    UnparsableCommand,
    Word,
)

DECLARATIONS = frozenset({"declare", "typeset", "export", "readonly", "local", "alias", "eval"})
_COMPOUND = frozenset({"{", "if", "while", "until", "for", "select", "case", "[[", "function"})
_REDIRECTIONS = {
    "posix": re.compile(r"([0-9]?)(<<-|<<|<>|<&|>>|>\||>&|<|>)"),
    "bash": re.compile(
        r"([0-9]*|\{[A-Za-z_][A-Za-z0-9_]*(?:\[[^]\s]*\])?\})"
        r"(<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\())|()(&>>|&>)"
    ),
}
_REDIRECTION_STARTS = frozenset("<>&{0123456789\\")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORCED = re.compile(r">!(?=[ \t])")  # zsh


class SimpleCommandParser(ListParser):
    def _simple(self, start: int) -> Node:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirections: list[Redirection] = []
        declares = contiguous = True
        before = 0  # redirections before the last word
        while True:
            self.blanks()
            if redirection := self._redirection():
                redirections.append(redirection)
                continue
            word = self.word(assigns=not words or declares, command=not words)
            if word is None:
                break
            if not words and (assigned := assignment_of(word, append=self.bash)):
                assignments.append(assigned)
                continue
            if words and len(redirections) > before:
                contiguous = False
            before = len(redirections)
            words.append(word)
            if len(words) == 1:
                declares = word.plain in DECLARATIONS
                if not assignments and not redirections and self._opens_definition():
                    return self._named_function(word, start)
        if not (words or assignments or redirections):
            raise UnparsableCommand(f"unexpected {self._shown()}")
        if self.peek() == "(":
            raise UnparsableCommand("a parenthesis after a word")
        first, last = (words[0].start, words[-1].end) if words else (start, self.at)
        if not self.located:
            first = last = -1
        redirections += self._forced
        self._forced.clear()
        return SimpleCommand(
            tuple(assignments), tuple(words), tuple(redirections), first, last, contiguous
        )

    def _opens_definition(self) -> bool:
        self.blanks()
        return self.peek() == "("

    def _named_function(self, word: Word, start: int) -> FunctionDefinition:
        self.at += 1
        self.blanks()
        if self.peek() != ")":
            raise UnparsableCommand("a parenthesis after a word")
        self.at += 1
        name = word.plain
        if name is None or (not self.bash and not _FUNCTION_NAME.fullmatch(name)):
            raise UnparsableCommand("a function without a name")
        self.enter()
        found = self._definition(name, start)
        self.depth -= 1
        return found

    def _definition(self, name: str, start: int) -> FunctionDefinition:
        self._skip_lines()
        word = self._reserved()
        if self.bash and self.peek() != "(" and word not in _COMPOUND:
            raise UnparsableCommand("a function without a body")
        return FunctionDefinition(name, self._command(), *self._span(start))

    # -- redirections ----------------------------------------------------------------------------

    def _redirections(self) -> tuple[Redirection, ...]:
        found: list[Redirection] = []
        while True:
            self.blanks()
            redirection = self._redirection()
            if redirection is None:
                return tuple(found)
            found.append(redirection)

    def _redirection(self) -> Redirection | None:
        if self.peek() not in _REDIRECTION_STARTS:
            return None
        match = _REDIRECTIONS[self.dialect].match(self.text, self.at)
        if match is None:
            return None
        descriptor, operator = match[1] or "", match[2]
        if operator is None:
            operator = match[4]
        if _FORCED.match(self.text, match.end() - 1):
            self._forced.append(Redirection(">", self._word_at(match.end() + 1)))
        self.at = match.end()
        self.blanks()
        if self._continued and self.text[self.at - 2 : self.at] == "\\\n":
            self.problems.append("an operator that is continued on the next line")
        before = self.at
        if operator in ("<&", ">&") and self.peek() == "-":  # `<&-ls` closes, and runs ls
            self.at += 1
            return Redirection(operator, Word((Literal("-"),), before, self.at), descriptor)
        target = self.word()
        if target is None:
            raise UnparsableCommand(f"{operator} without a file")
        if operator not in ("<<", "<<-"):
            return Redirection(operator, target, descriptor)
        document = self._document(self.text[before : self.at], operator == "<<-")
        self._documents.append(document)
        return Redirection(operator, target, descriptor, document)

    def _word_at(self, at: int) -> Word:
        """The word at a position, without advancing."""
        before, self.at = self.at, at
        self.blanks()
        word = self.word()
        self.at = before
        return word or Word(())

    def _document(self, raw: str, strips_tabs: bool) -> HereDocument:
        raw = raw.replace("\\\n", "")
        if "$" in raw or "`" in raw:
            self.problems.append("a here-document with an expansion in its delimiter")
        literal = any(c in raw for c in "'\"\\")
        delimiter = re.sub(r"\\(.)|'([^']*)'|\"", r"\1\2", raw)
        return HereDocument(delimiter, literal, strips_tabs)


def assignment_of(word: Word, *, append: bool = True) -> Assignment | None:
    """The assignment that a word is, if any. `append`: the shell supports `+=`."""
    match word.parts:
        case (Literal(name, False), Subscript(subscript), Literal(sign, False), *rest) if (
            sign.startswith(("=", "+="))
        ):
            value = sign.partition("=")[2]
            parts = [Literal(value), *rest] if value else rest
            return Assignment(name, Word(tuple(parts)), sign[0] == "+", subscript)
        case (Literal(text, False), *rest):
            match = _ASSIGNMENT.match(text)
            if match is None or (match[2] and not append):
                return None
            value = text[match.end() :]
            parts = [Literal(value), *rest] if value else rest
            return Assignment(match[1], Word(tuple(parts)), bool(match[2]))
    return None
