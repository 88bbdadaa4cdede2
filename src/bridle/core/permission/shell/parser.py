"""The grammar of shell text: recursive descent over the words of the lexer, in one dialect."""

from __future__ import annotations

import re

from bridle.core.permission.shell.lexer import DELIMITERS, Lexer
from bridle.core.permission.shell.syntax import (
    AndOr,
    ArithmeticCommand,
    ArithmeticFor,
    Assignment,
    Background,
    Case,
    CaseItem,
    Condition,
    Coprocess,
    For,
    FunctionDefinition,
    HereDocument,
    If,
    Literal,
    Loop,
    Node,
    Part,
    Pipeline,
    Redirected,
    Redirection,
    Script,
    SimpleCommand,
    Subscript,
    Subshell,
    UnparsableCommand,
    Word,
)

DECLARATIONS = frozenset({"declare", "typeset", "export", "readonly", "local", "alias", "eval"})
_END = r"(?=[ \t\n|&;<>()]|\\\n|\Z)"
_POSIX_WORDS = r"if|then|elif|else|fi|while|until|do|done|for|case|esac|in|\{|\}|!"
_RESERVED = {
    "posix": re.compile(rf"(?:{_POSIX_WORDS}){_END}"),
    "bash": re.compile(rf"(?:{_POSIX_WORDS}|select|function|time|coproc|\[\[){_END}"),
}
_CLOSING = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_COMPOUND = frozenset({"{", "if", "while", "until", "for", "select", "case", "[[", "function"})
_SEPARATORS = {
    "posix": re.compile(r"&&|\|\||;;|[;&|\n]"),
    "bash": re.compile(r"&&|\|\||;;&|;;|;&|\|&|&(?!>)|[;|\n]"),
}
_REDIRECTIONS = {
    "posix": re.compile(r"([0-9]*)(<<-|<<|<>|<&|>>|>\||>&|<|>)"),
    "bash": re.compile(
        r"([0-9]*|\{[A-Za-z_][A-Za-z0-9_]*(?:\[[^]\s]*\])?\})"
        r"(<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\())|()(&>>|&>)"
    ),
}
_REDIRECTION_STARTS = frozenset("<>&{0123456789\\")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONDITION_OPERATORS = re.compile(r"&&|\|\||[<>()]")
_REGEX_RUN = re.compile(r"[^ \t\n()\\'\"$`]+")
# Two subshells where the shell knows no such command; these names are no programs.
_COUNTS = re.compile(r"\(\(\s*(\d+|[A-Za-z_]\w*(\+\+|--|[-+*/%]?=\w*))\s*\)\)")
_FORCED = re.compile(r">!(?=[ \t])")  # zsh


class Parser(Lexer):
    def next_command(self) -> Script | None:
        """One complete command, to the end of its line: what a shell reads before it runs it."""
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
                node = Background(node, *self._span(start))
            commands.append(node)
            if separator in (";", "&"):
                self.at += 1
                self._forgive(separator)
                self.blanks()
                separator = self._separator() if self.peek() in ("", "\n") else "more"
            if separator == "more":
                continue
            if separator not in ("", "\n") or (not separator and self.peek()):
                raise UnparsableCommand(f"a {self._shown()} where none belongs")
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
        """Commands up to `)` or `}`, which is passed; none is fine."""
        outer, self._documents = self._documents, []
        self._skip_lines()
        if close == ")" and self.peek() == ")":
            script = Script((), *self._span(self.at))
        else:
            script = self._list(close, empty=True)
        if close == "}" and self._reserved() != "}":
            raise UnparsableCommand(f"a {close} is missing")
        if close == ")" and self.peek() != ")":
            raise UnparsableCommand(f"a {close} is missing")
        self.at += 1
        if self._documents:
            self.problems.append("a here-document that is open where its commands end")
        self._documents = outer + self._documents
        return script

    def _list(self, *ends: str, empty: bool = False) -> Script:
        """Commands up to a word or sign that ends them, which is left."""
        self._skip_lines()
        start = self.at
        commands: list[Node] = []
        while not self._is_end(ends):
            before = self.at
            node = self._and_or()
            self.blanks()
            separator = self._separator()
            if separator == "&":
                node = Background(node, *self._span(before))
            commands.append(node)
            if separator in (";", "&", "\n"):
                self._skip_separator(separator)
            elif not self._is_end(ends):
                raise UnparsableCommand(f"a {self._shown()} where none belongs")
        if not commands and not empty:
            raise UnparsableCommand(f"nothing before a {ends[0]}")
        return Script(tuple(commands), *self._span(start))

    def _is_end(self, ends: tuple[str, ...]) -> bool:
        self.blanks()
        c = self.peek()
        if not c:
            raise UnparsableCommand(f"a {ends[0]} is missing")
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
        """A line continuation may stand inside of an operator: it is taken out."""
        if not self.text.startswith("\\\n", self.at + 1):
            return first
        self.problems.append("a line that is continued inside of an operator")
        at = self.at + 1
        while self.text.startswith("\\\n", at):
            at += 2
        self.text = self.text[: self.at + 1] + self.text[at:]
        self.located = False
        return self._separator()

    def _forgive(self, separator: str) -> None:
        """`&;` is an error in bash, and none in zsh."""
        self.blanks()
        if separator == "&" and self._separator() == ";":
            self.problems.append("a ; behind a &")
            self.at += 1

    def _skip_separator(self, separator: str) -> None:
        self.at += 1
        self._forgive(separator)
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
            commands.append(self._command())
        if len(commands) == 1 and not negated:
            return commands[0]
        return Pipeline(tuple(commands), negated, *self._span(start))

    # -- commands --------------------------------------------------------------------------------

    def _reserved(self) -> str:
        """The reserved word that stands here, if any."""
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
        self.problems.append("a reserved word in two lines")
        self.text = self.text[: self.at] + joined + self.text[match.end() :]
        self.located = False
        return joined

    def _command(self) -> Node:
        self.blanks()
        start = self.at
        word = self._reserved()
        if word in _CLOSING:
            raise UnparsableCommand(f"a {word} where none belongs")
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
                raise UnparsableCommand("a for without its ))")
            self._optional_separator()
            return ArithmeticFor(header, self._loop_body(), *self._span(start))
        name = self.word()
        if name is None or (not self.bash and not _FUNCTION_NAME.fullmatch(name.plain or "")):
            raise UnparsableCommand("a for without a name")
        self._skip_lines()
        words: tuple[Word, ...] | None = None
        if self._reserved() == "in":
            self.at += 2
            words = self._words()
            self.blanks()
            if (separator := self._separator()) not in (";", "\n"):
                raise UnparsableCommand("a for without do")
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

    def _case(self, start: int) -> Case:
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
                return Case(subject, tuple(items), *self._span(start))
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

    def _definition(self, name: str, start: int) -> FunctionDefinition:
        self._skip_lines()
        word = self._reserved()
        if self.bash and self.peek() != "(" and word not in _COMPOUND:
            raise UnparsableCommand("a function without a body")
        return FunctionDefinition(name, self._command(), *self._span(start))

    def _coprocess(self, start: int) -> Coprocess:
        """A name may stand before what is more than a simple command."""
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
            raise UnparsableCommand(f"a {words[0]} is missing")
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
                raise UnparsableCommand("a ]] is missing")
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
                raise UnparsableCommand("a ]] is missing")
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

    # -- simple commands -------------------------------------------------------------------------

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
            raise UnparsableCommand(f"a {self._shown()} where none belongs")
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
            self.problems.append("a line that is continued inside of an operator")
        before = self.at
        target = self.word()
        if target is None:
            raise UnparsableCommand(f"a {operator} to nothing")
        if operator not in ("<<", "<<-"):
            return Redirection(operator, target, descriptor)
        document = self._document(self.text[before : self.at], operator == "<<-")
        self._documents.append(document)
        return Redirection(operator, target, descriptor, document)

    def _word_at(self, at: int) -> Word:
        """The word that follows there, which stays where it is."""
        before, self.at = self.at, at
        self.blanks()
        word = self.word()
        self.at = before
        return word or Word(())

    def _document(self, raw: str, strips_tabs: bool) -> HereDocument:
        raw = raw.replace("\\\n", "")
        if "$" in raw or "`" in raw:
            self.problems.append("a here-document with an odd end")
        literal = any(c in raw for c in "'\"\\")
        delimiter = re.sub(r"\\(.)|'([^']*)'|\"", r"\1\2", raw)
        return HereDocument(delimiter, literal, strips_tabs)

    def _span(self, start: int) -> tuple[int, int]:
        return (start, self.at) if self.located else (-1, -1)

    def _shown(self) -> str:
        c = self.peek()
        return repr(c) if c in DELIMITERS and not c.isprintable() else c or "end"


def assignment_of(word: Word, *, append: bool = True) -> Assignment | None:
    """The assignment that a word is, if any. `append`: the shell knows `+=`."""
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
