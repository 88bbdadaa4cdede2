"""Shell grammar: recursive descent parser over the lexer's words, in one dialect."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsing.simple_command_parser import SimpleCommandParser
from tillerman.core.permission.shell.parsing.syntax import (
    ArithmeticCommand,
    ArithmeticFor,
    CaseClause,
    CaseItem,
    Condition,
    Coprocess,
    For,
    FunctionDefinition,
    If,
    Literal,
    Loop,
    Node,
    Part,
    Redirected,
    Script,
    Subshell,
    UnparsableCommand,
    Word,
)

_CLOSING = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_COMPOUND = frozenset({"{", "if", "while", "until", "for", "select", "case", "[[", "function"})
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONDITION_OPERATORS = re.compile(r"&&|\|\||[<>](?!\()|[()]")
_REGEX_RUN = re.compile(r"[^ \t\n()\\'\"$`]+")
# Parsed as two subshells if the shell has no such command; these names are not programs.
_COUNTS = re.compile(r"\(\(\s*(\d+|[A-Za-z_]\w*(\+\+|--|[-+*/%]?=\w*))\s*\)\)")


class ShellParser(SimpleCommandParser):
    """Parses compound commands; builds on simple commands and lists."""

    def _command(self) -> Node:
        self.blanks()
        start = self.at
        word = self._reserved()
        if word in _CLOSING:
            raise UnparsableCommand(f"unexpected {word}")
        body: Node
        if self.peek() == "(":
            self.enter()
            body = self._parenthesized(start)
        elif word and word not in ("!", "time", "in"):
            self.enter()
            body = self._compound(word, start)
        else:
            return self._simple(start)
        self.depth -= 1
        if isinstance(body, FunctionDefinition | Coprocess):
            return body
        redirections = self._redirections()
        return Redirected(body, redirections, *self._span(start)) if redirections else body

    def _compound(self, word: str, start: int) -> Node:
        self.at += len(word)
        match word:
            case "{":
                body = self._list("}")
                self._expect("}")
                return body
            case "if":
                return self._if(start)
            case "while" | "until":
                condition = self._list("do")
                body = self._do()
                return Loop(condition, body, word == "until", *self._span(start))
            case "for" | "select":
                return self._for(start, select=word == "select")
            case "case":
                return self._case(start)
            case "function":
                return self._function(start)
            case "[[":
                return self._condition(start)
        return self._coprocess(start)

    def _parenthesized(self, start: int) -> Node:
        self.at += 1
        counts = self.bash or _COUNTS.match(self.text, start)
        if counts and self.text.startswith("(", self.at) and self._arithmetic.get(start, True):
            self.at += 1
            found = self.arithmetic()
            self._arithmetic[start] = found is not None
            if found is not None:
                return ArithmeticCommand(found, *self._span(start))
            self.at = start + 1
        body = self._list(")")
        self.at += 1
        return Subshell(body, *self._span(start))

    def _if(self, start: int) -> If:
        condition = self._list("then")
        self._expect("then")
        then = self._list("elif", "else", "fi")
        otherwise: Script | None = None
        before = self.at
        match self._expect("elif", "else", "fi"):
            case "elif":
                self.enter()
                nested = self._if(before)
                self.depth -= 1
                return If(condition, then, Script((nested,), *self._span(before)),
                          *self._span(start))  # fmt: skip
            case "else":
                otherwise = self._list("fi")
                self._expect("fi")
        return If(condition, then, otherwise, *self._span(start))

    def _do(self) -> Script:
        self._expect("do")
        body = self._list("done")
        self._expect("done")
        return body

    def _for(self, start: int, *, select: bool) -> Node:
        self.blanks()
        if self.bash and not select and self.text.startswith("((", self.at):
            self.at += 2
            header = self.arithmetic()
            if header is None:
                raise UnparsableCommand("a for loop without ))")
            self._optional_separator()
            return ArithmeticFor(header, self._loop_body(), *self._span(start))
        name = self.word()
        if name is None or (not self.bash and not _FUNCTION_NAME.fullmatch(name.plain or "")):
            raise UnparsableCommand("a for loop without a variable")
        self._skip_lines()
        words: tuple[Word, ...] | None = None
        if self._reserved() == "in":
            self.at += 2
            words = self._words()
            self.blanks()
            if (separator := self._separator()) not in (";", "\n"):
                raise UnparsableCommand("a for loop without do")
            self._skip_separator(separator)
        else:
            self._optional_separator()
        return For(name, words, self._loop_body(), select, *self._span(start))

    def _optional_separator(self) -> None:
        self.blanks()
        if (separator := self._separator()) in (";", "\n"):
            self._skip_separator(separator)

    def _loop_body(self) -> Script:
        if self.bash and self._reserved() == "{":
            self.at += 1
            body = self._list("}")
            self._expect("}")
            return body
        return self._do()

    def _words(self) -> tuple[Word, ...]:
        found: list[Word] = []
        while True:
            self.blanks()
            word = self.word()
            if word is None:
                return tuple(found)
            found.append(word)

    def _case(self, start: int) -> CaseClause:
        self.blanks()
        subject = self.word()
        self._skip_lines()
        if subject is None or self._reserved() != "in":
            raise UnparsableCommand("a case without in")
        self.at += 2
        items: list[CaseItem] = []
        while True:
            self._skip_lines()
            if self._reserved() == "esac":
                self.at += 4
                return CaseClause(subject, tuple(items), *self._span(start))
            items.append(self._case_item())
            if self._reserved() != "esac" and not items[-1].terminator:
                raise UnparsableCommand("a case without esac")

    def _case_item(self) -> CaseItem:
        if self.peek() == "(":
            self.at += 1
        patterns: list[Word] = []
        while True:
            self.blanks()
            pattern = self.word()
            if pattern is None:
                raise UnparsableCommand("a case that cannot be read")
            patterns.append(pattern)
            self.blanks()
            if self.peek() == ")":
                break
            if self.peek() != "|":
                raise UnparsableCommand("a case that cannot be read")
            self.at += 1
        self.at += 1
        body = self._list(";;", "esac", empty=True)
        terminator = self._separator()
        if terminator in (";;", ";&", ";;&"):
            self.at += len(terminator)
        else:
            terminator = ""
        return CaseItem(tuple(patterns), body, terminator)

    def _function(self, start: int) -> FunctionDefinition:
        self.blanks()
        name = self.word(command=True)
        if name is None:
            raise UnparsableCommand("a function without a name")
        self.blanks()
        if self.peek() == "(":
            self.at += 1
            self.blanks()
            if self.peek() == ")":
                self.at += 1
            else:  # the parenthesis is its body
                self.at -= 1
        return self._definition(self.text[name.start : name.end], start)

    def _coprocess(self, start: int) -> Coprocess:
        """Parses `coproc`; a name may precede a compound command."""
        self.blanks()
        before = self.at
        name = ""
        if self.peek() != "(" and not self._reserved():
            word = self.word(command=True)
            self.blanks()
            if word and (self.peek() == "(" or self._reserved() in _COMPOUND):
                name = word.plain or ""
            else:
                self.at = before
        return Coprocess(name, self._command(), *self._span(start))

    def _expect(self, *words: str) -> str:
        self.blanks()
        found = self._reserved()
        if found not in words:
            raise UnparsableCommand(f"missing {words[0]}")
        self.at += len(found)
        return found

    # -- conditions ------------------------------------------------------------------------------

    def _condition(self, start: int) -> Condition:
        words: list[Word] = []
        opened = 0
        while True:
            self._skip_lines()
            before = self.at
            if not self.peek():
                raise UnparsableCommand("missing ]]")
            last = words[-1].plain if words else None
            if last == "=~":
                words.append(self._regex())
                continue
            if match := _CONDITION_OPERATORS.match(self.text, self.at):
                self.at = match.end()
                opened += (match[0] == "(") - (match[0] == ")")
                words.append(Word((Literal(match[0]),), before, self.at))
                continue
            word = self.word()
            if word is None:
                raise UnparsableCommand("missing ]]")
            if word.plain == "]]":
                break
            words.append(word)
        if opened or not words:
            raise UnparsableCommand("a condition that cannot be read")
        return Condition(tuple(words), *self._span(start))

    def _regex(self) -> Word:
        start = self.at
        parts: list[Part] = []
        opened = 0
        while c := self.peek():
            if c in " \t\n" and not opened:
                break
            if c == "'":
                parts.append(Literal(self.single_quoted(), quoted=True))
            elif c == '"':
                self.double_quoted(parts)
            elif c == "$":
                self.dollar(parts, quoted=False)
            elif c == "`":
                parts.append(self.backticks(quoted=False))
            elif c == "\\":
                parts.append(Literal(self.text[self.at + 1 : self.at + 2], quoted=True))
                self.at += 2
            elif match := _REGEX_RUN.match(self.text, self.at):
                parts.append(Literal(match[0], quoted=True))
                self.at = match.end()
            else:
                opened += (c == "(") - (c == ")")
                parts.append(Literal(c, quoted=True))
                self.at += 1
        if self.at == start:
            raise UnparsableCommand("a condition that cannot be read")
        return Word(tuple(parts), start, self.at)
