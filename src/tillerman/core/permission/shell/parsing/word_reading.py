"""Parses one word that contains quotes, expansions or globs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tillerman.core.permission.shell.parsing.syntax import (
    ArrayValue,
    ExtendedGlob,
    Literal,
    Part,
    Parts,
    Subscript,
    UnparsableCommand,
    Word,
)

if TYPE_CHECKING:
    from tillerman.core.permission.shell.parsing.lexer import Lexer

DELIMITERS = frozenset(" \t\n|&;<>()")
_RUN = re.compile(r"[^ \t\n|&;<>()\\'\"$`\[]+")
_SUBSCRIPTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class WordReading:
    """Parser of one word that contains quotes, expansions or globs."""

    def __init__(self, lexer: Lexer, *, assigns: bool, extglob: bool) -> None:
        self._lexer = lexer
        self._assigns = assigns and lexer.bash
        self._extglob = extglob and lexer.bash
        self._parts: list[Part] = []
        self._literal = ""
        self.began = False

    def read(self) -> Parts:
        lexer = self._lexer
        if self._assigns and (match := _SUBSCRIPTED.match(lexer.text, lexer.at)):
            self._subscript(match.end())
        while c := lexer.peek():
            if c in DELIMITERS:
                if not self._continues(c):
                    break
            else:
                self._piece(c)
        self._flush()
        return tuple(self._parts)

    def _flush(self) -> None:
        if self._literal:
            self._parts.append(Literal(self._literal))
            self._literal = ""

    def _continues(self, c: str) -> bool:
        """Whether this delimiter is part of the word after all."""
        lexer = self._lexer
        if c in "<>" and lexer.substitutes():
            self._flush()
            self._parts.append(lexer.process_substitution())
            return True
        if c != "(":
            return False
        if self._assigns and self._is_array():
            self._flush()
            self._parts.append(self._array())
            return True
        if self._extglob and self._literal[-1:] in tuple("?*+@!"):
            sign, self._literal = self._literal[-1], self._literal[:-1]
            self._flush()
            self._parts.append(self._extended(sign))
            return True
        return False

    def _is_array(self) -> bool:
        if not self._parts:
            return _ARRAY_NAME.fullmatch(self._literal) is not None
        return isinstance(self._parts[-1], Subscript) and self._literal in ("=", "+=")

    def _piece(self, c: str) -> None:
        lexer = self._lexer
        self.began = True
        match c:
            case "\\":
                self._flush()
                following = lexer.text[lexer.at + 1 : lexer.at + 2]
                lexer.at += 1 + len(following)
                self._parts.append(Literal(following or "\\", quoted=True))
            case "'":
                self._flush()
                self._parts.append(Literal(lexer.single_quoted(), quoted=True))
            case '"':
                self._flush()
                lexer.double_quoted(self._parts)
            case "$":
                self._flush()
                lexer.dollar(self._parts, quoted=False)
            case "`":
                self._flush()
                self._parts.append(lexer.backticks(quoted=False))
            case _:
                match = _RUN.match(lexer.text, lexer.at)
                found = match[0] if match else c
                self._literal += found
                lexer.at += len(found)

    def _subscript(self, start: int) -> None:
        """Parses `name[…]` where an assignment may begin."""
        lexer = self._lexer
        before = lexer.at
        lexer.at = start
        try:
            inner = lexer.until("]", opens="[")
        except UnparsableCommand:
            lexer.at = before
            return
        if not re.compile(r"\+?=").match(lexer.text, lexer.at):
            lexer.at = before
            return
        self.began = True
        self._parts += [Literal(lexer.text[before : start - 1]), Subscript(Word(inner))]

    def _array(self) -> ArrayValue:
        lexer = self._lexer
        lexer.at += 1
        items: list[Word] = []
        while True:
            lexer.blanks()
            c = lexer.peek()
            if c == "\n":
                lexer.at += 1
                lexer.read_documents()
            elif c == ")":
                lexer.at += 1
                return ArrayValue(tuple(items))
            else:
                word = lexer.word(assigns=True) if c != "[" else self._keyed()
                if word is None:
                    raise UnparsableCommand("a list that cannot be read")
                items.append(word)

    def _keyed(self) -> Word | None:
        """Parses `[key]=value` of an array."""
        lexer = self._lexer
        start = lexer.at
        lexer.at += 1
        try:
            inner = lexer.until("]", opens="[")
        except UnparsableCommand:
            inner = ()
        if not lexer.text.startswith(("=", "+="), lexer.at):
            lexer.at = start
            return lexer.word()
        value = lexer.word()
        return Word((Literal(""), Subscript(Word(inner)), *(value.parts if value else ())), start)

    def _extended(self, sign: str) -> ExtendedGlob:
        lexer = self._lexer
        start = lexer.at
        lexer.at += 1
        lexer.enter()
        inner = lexer.until(")", opens="(")
        lexer.depth -= 1
        return ExtendedGlob(sign + lexer.text[start : lexer.at], inner)
