"""Shell lexer: words, quotes, expansions, blanks, comments and here-documents."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsing.ansi_quoting import decode
from tillerman.core.permission.shell.parsing.syntax import (
    Arithmetic,
    CommandSubstitution,
    Dialect,
    HereDocument,
    Literal,
    Parameter,
    Part,
    Parts,
    ProcessSubstitution,
    Redirection,
    Script,
    UnparsableCommand,
    Word,
)

DEEPEST = 30
_PLAIN = re.compile(r"[A-Za-z0-9_./:,%^@+=-]+")
_PLAIN_RUN = re.compile(r"[A-Za-z0-9_ .,:;+*%=&|~^#@!?/-]+")
_QUOTED_RUN = re.compile(r"[^\\\"$`]+")
_BLANKS = re.compile(r"[ \t]+")
_MAY_BE_BLANK = frozenset(" \t#\\")
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_OPERATOR = re.compile(r":?[-+=?]|##?|%%?|//?|\^\^?|,,?|@[A-Za-z](?=\})|:")
_LENGTH = re.compile(r"#(?=([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])[}\[])")
_TEXT_OPERATORS = frozenset({"-", "+", "=", "?", ":-", ":+", ":=", ":?"})
_POSIX_OPERATORS = _TEXT_OPERATORS | {"", "#", "##", "%", "%%", "length"}
_ESCAPED_IN_QUOTES = '$`"\\'


class Lexer:
    """Reads words; `located`: offsets refer to the line that a person sees."""

    def __init__(
        self,
        text: str,
        dialect: Dialect,
        *,
        extglob: bool = False,
        posix_mode: bool = False,
        depth: int = 0,
        located: bool = True,
        problems: list[str] | None = None,
    ) -> None:
        self.text = text
        self.at = 0
        self.dialect: Dialect = dialect
        self.bash = dialect == "bash"
        self.extglob = extglob
        self.posix_mode = posix_mode  # of bash, perhaps
        self.depth = depth
        self.located = located
        self.problems: list[str] = [] if problems is None else problems  # doubtful parses
        self._documents: list[HereDocument] = []  # named in this line, not read yet
        self._forced: list[Redirection] = []  # that only zsh recognizes
        self._arithmetic: dict[int, bool] = {}  # whether the `((` at an offset is arithmetic
        self._continued = "\\\n" in text
        # nesting in text that shells parse late: a syntax error in it stops them later
        self.deferred = 0

    # -- implemented by a parser -----------------------------------------------------------------

    def script_until(self, close: str) -> Script:
        raise NotImplementedError

    def nested(self, text: str) -> Lexer:
        """A lexer for text extracted from this one."""
        return type(self)(
            text,
            self.dialect,
            extglob=self.extglob,
            posix_mode=self.posix_mode,
            depth=self.depth + 1,
            located=False,
            problems=self.problems,
        )

    def whole_script(self) -> Script:
        raise NotImplementedError

    # -- characters ------------------------------------------------------------------------------

    def peek(self) -> str:
        """The next character after line continuations."""
        while self._continued and self.text.startswith("\\\n", self.at):
            self.at += 2
        return self.text[self.at : self.at + 1]

    def blanks(self) -> None:
        while self.text[self.at : self.at + 1] in _MAY_BE_BLANK:
            if match := _BLANKS.match(self.text, self.at):
                self.at = match.end()
            elif self._continued and self.text.startswith("\\\n", self.at):
                self.at += 2
            elif match := _COMMENT.match(self.text, self.at):
                self.at = match.end()
            else:
                return

    def enter(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnparsableCommand("too many levels of nesting")

    # -- words -----------------------------------------------------------------------------------

    def word(self, *, assigns: bool = False, command: bool = False) -> Word | None:
        """The next word; None if there is none. `assigns`: it may be `name=(…)` or `name[…]=…`."""
        start = self.at
        if match := _PLAIN.match(self.text, start):
            end = match.end()
            following = self.text[end : end + 2]
            if not following or (following[0] in " \t\n;|&<>)" and following not in ("<(", ">(")):
                self.at = end
                return Word((Literal(match[0]),), start, end)
        elif start >= len(self.text) or self.text[start] in " \t\n;|&()":
            return None
        from tillerman.core.permission.shell.parsing.word_reading import WordReading

        reading = WordReading(self, assigns=assigns, extglob=self.extglob or not command)
        parts = reading.read()
        if self.at == start or (not parts and not reading.began):
            return None
        return Word(parts, start, self.at)

    def single_quoted(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise UnparsableCommand("an unclosed '")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def double_quoted(self, parts: list[Part]) -> None:
        """Reads from the opening quote."""
        self.at += 1
        before = len(parts)
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == '"':
                self.at += 1
                if len(parts) == before:
                    parts.append(Literal("", quoted=True))
                return
            self.in_quotes(parts)
        raise UnparsableCommand('an unclosed "')

    def in_quotes(self, parts: list[Part], escaped: str = _ESCAPED_IN_QUOTES) -> None:
        """One piece of text in double quotes, or of a here-document."""
        text, at = self.text, self.at
        c = text[at]
        if c == "\\":
            following = text[at + 1 : at + 2]
            self.at += 2
            if following == "\n":
                return
            parts.append(Literal(following if following in escaped else c + following, True))
        elif c == "$":
            self.dollar(parts, quoted=True)
        elif c == "`":
            parts.append(self.backticks(quoted=True))
        elif match := _QUOTED_RUN.match(text, at):
            self.at = match.end()
            parts.append(Literal(match[0], quoted=True))
        else:  # a quote character without special meaning
            self.at += 1
            parts.append(Literal(c, quoted=True))

    # -- expansions ------------------------------------------------------------------------------

    def dollar(self, parts: list[Part], *, quoted: bool) -> None:
        self.at += 1
        c = self.peek()
        if self.bash and not quoted and c == "'":
            parts.append(Literal(self._ansi(), quoted=True))
        elif self.bash and not quoted and c == '"':
            self.double_quoted(parts)
        elif c == "(":
            parts.append(self._parenthesis(quoted))
        elif c == "{":
            parts.append(self._braces(quoted))
        elif self.bash and c == "[":
            self.at += 1
            start = self.at
            inner = self.until("]", opens="[", quoted=True)
            parts.append(Arithmetic(self.text[start : self.at - 1], inner, quoted))
        elif match := _NAME.match(self.text, self.at):
            self.at = match.end()
            name = match[0]
            while self._continued and self.text.startswith("\\\n", self.at):
                self.at += 2
                if more := re.compile(r"[A-Za-z0-9_]*").match(self.text, self.at):
                    name += more[0]
                    self.at = more.end()
            parts.append(Parameter(name, quoted=quoted))
        elif c and c in "@*#?$!-0123456789":
            self.at += 1
            parts.append(Parameter(c, quoted=quoted))
        else:
            parts.append(Literal("$", quoted=True))

    def _ansi(self) -> str:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise UnparsableCommand("an unclosed $'")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return decode(inside)

    def _parenthesis(self, quoted: bool) -> Part:
        """`$((…))` if its own parentheses close it, else `$(…)`."""
        start = self.at
        self.at += 1
        if self.peek() == "(" and self._arithmetic.get(start, True):
            self.at += 1
            found = self.arithmetic(quoted)
            self._arithmetic[start] = found is not None
            if found is not None:
                return found
            if not self.bash:
                raise UnparsableCommand("unclosed arithmetic")
        self.at = start
        self.peek()
        self.at += 1
        self.enter()
        body = self.script_until(")")
        self.depth -= 1
        return CommandSubstitution(body, quoted)

    def arithmetic(self, quoted: bool = False) -> Arithmetic | None:
        """Reads after `((`; None if no `))` closes it."""
        start = self.at
        self.enter()
        inner = self.until(")", opens="(", quoted=True)
        self.depth -= 1
        text = self.text[start : self.at - 1]
        if self.text[self.at : self.at + 1] != ")":
            return None
        self.at += 1
        if any(isinstance(part, Literal) and "'" in part.text for part in inner):
            self.problems.append("a quote inside of arithmetic")
        return Arithmetic(text, inner, quoted)

    def _braces(self, quoted: bool) -> Part:
        self.at += 1
        if self.bash and self.text[self.at : self.at + 1] in (" ", "\t", "\n", "|"):
            self.at += self.text[self.at] == "|"
            self.enter()
            body = self.script_until("}")
            self.depth -= 1
            return CommandSubstitution(body, quoted, in_shell=True)
        start = self.at
        operator = ""
        if match := _LENGTH.match(self.text, self.at):
            self.at += 1
            operator = "length"
        indirect = False
        if self.bash and re.compile(r"![A-Za-z_0-9@*#?!$]").match(self.text, self.at):
            self.at += 1
            indirect = True
        match = _PARAMETER.match(self.text, self.at)
        self.at = match.end() if match else self.at
        self.peek()
        subscript = None
        if self.bash and match and self.text.startswith("[", self.at):
            self.at += 1
            subscript = Word(self.until("]", opens="[", quoted=False))
        if not operator and (found := _OPERATOR.match(self.text, self.at)):
            operator = found[0]
            self.at = found.end()
        elif not match or not self.text.startswith("}", self.at):
            operator = operator or "bad"
        plain_quotes = quoted and operator in _TEXT_OPERATORS
        self.enter()
        later = self.bash or operator not in _POSIX_OPERATORS
        self.deferred += later
        word = Word(self.until("}", quoted=plain_quotes))
        self.deferred -= later
        self.depth -= 1
        return Parameter(
            match[0] if match else "",
            operator,
            word,
            quoted,
            subscript,
            indirect,
            self.text[start : self.at - 1],
        )

    def until(self, close: str, *, opens: str = "", quoted: bool = False) -> Parts:
        """Text and expansions up to and including a character. `quoted`: as in double quotes."""
        parts: list[Part] = []
        inner = 0
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == close and not inner:
                self.at += 1
                return tuple(parts)
            if c == '"':
                self.double_quoted(parts)
            elif c == "'" and not quoted:
                parts.append(Literal(self.single_quoted(), quoted=True))
            elif c == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                self.at += 2
                if following != "\n":
                    kept = quoted and following not in _ESCAPED_IN_QUOTES + close
                    parts.append(Literal(c + following if kept else following, quoted=True))
            elif c == "$":
                self.dollar(parts, quoted=quoted)
            elif c == "`":
                parts.append(self.backticks(quoted=quoted))
            elif c in "<>" and not quoted and self.substitutes():
                parts.append(self.process_substitution())
            elif match := _PLAIN_RUN.match(self.text, self.at):
                self.at = match.end()
                parts.append(Literal(match[0], quoted))
            else:
                inner += (c == opens) - (c == close)
                self.at += 1
                parts.append(Literal(c, quoted))
        raise UnparsableCommand(f"missing {close}")

    def substitutes(self) -> bool:
        return self.bash and self.text.startswith("(", self.at + 1)

    def process_substitution(self) -> ProcessSubstitution:
        self.at += 2
        self.enter()
        body = self.script_until(")")
        self.depth -= 1
        return ProcessSubstitution(body)

    def backticks(self, *, quoted: bool) -> CommandSubstitution:
        start = self.at = self.at + 1
        while self.at < len(self.text) and self.text[self.at] != "`":
            self.at += 2 if self.text[self.at] == "\\" else 1
        if self.at >= len(self.text):
            raise UnparsableCommand("an unclosed `")
        inside = self.text[start : self.at]
        self.at += 1
        signs = '$`\\\\"' if quoted else "$`\\\\"
        inside = re.sub(rf"\\([{signs}])", r"\1", inside)
        if self.depth >= DEEPEST:
            raise UnparsableCommand("too many levels of nesting")
        self.deferred += 1
        body = self.nested(inside).whole_script()
        self.deferred -= 1
        return CommandSubstitution(body, quoted)

    # -- here-documents --------------------------------------------------------------------------

    def read_documents(self) -> None:
        """Reads the bodies of the here-documents that the previous line named."""
        documents, self._documents = self._documents, []
        for document in documents:
            self._read_document(document)

    def _read_document(self, document: HereDocument) -> None:
        lines: list[str] = []
        continued = ""  # lines that end in a backslash, which some shells join first
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            self.at = min(end + 1, len(self.text))
            if document.strips_tabs:
                line = line.lstrip("\t")
            if continued and document.delimiter in (line, continued + line):
                self.problems.append("a here-document whose end stands in a continued line")
            if line == document.delimiter:
                break
            lines.append(line)
            odd = (len(line) - len(line.rstrip("\\"))) % 2
            continued = continued + line[:-1] if odd and not document.literal else ""
        text = "".join(f"{line}\n" for line in lines)
        if document.literal:
            document.body = Word((Literal(text, quoted=True),))
            return
        inner = self.nested(text)
        parts: list[Part] = []
        self.deferred += 1
        while inner.at < len(inner.text):
            inner.in_quotes(parts, escaped="$`\\")
        self.deferred -= 1
        document.body = Word(tuple(parts))
        if any(isinstance(part, Parameter) and set("'\"") & set(part.inner) for part in parts):
            self.problems.append("a quote inside of an expansion of a here-document")
