"""Reads a command line: every simple command in it, wherever the shell would find one.

What the language puts around commands is looked through: pipelines, lists, subshells, groups,
loops, conditions, functions, substitutions, here-documents, and programs that run others. What
cannot be read for certain is a doubt of the commands it touches.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Sequence

from msgspec.structs import replace

from bridle.core.permission.shell import programs, wrappers
from bridle.core.permission.shell.script import (
    HOLE,
    SIGNS,
    Command,
    Folder,
    Redirection,
    Script,
    is_open,
    joined,
    unquoted,
)
from bridle.core.permission.shell.source import Doubtful, Here, Source
from bridle.core.permission.shell.variables import HARMLESS, steers
from bridle.core.permission.shell.words import Word

LONGEST = 100_000
_DEEPEST = 24
_MOST = 500  # commands
_MOST_FOLDERS = 12
_REDIRECTION = re.compile(r"(\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>>|>\||>&|&>>|&>|<|>)(!(?=\s))?")
_COPIES = re.compile(r"\d*-?")
_NOT_FILES = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|fd/\d+|zero|urandom|random)")
_AGAIN = frozenset({
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "always",
})  # fmt: skip
_ODD = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
_FINE = frozenset(" \t\n")


def read(line: str) -> Script:
    """The script that this line is, as far as it can be told without running it."""
    reader = _Reader()
    odd = {c for c in set(line) - _FINE if unicodedata.category(c) in _ODD}
    if odd:
        reader.doubts.append(f"a character that is not what it looks like: {min(odd)!a}")
        line = "".join(" " if c.isspace() and c in odd else "" if c in odd else c for c in line)
    if len(line) > LONGEST:
        reader.doubts.append(f"longer than {LONGEST} characters")
        line = line[:LONGEST]
    reader.read(line)
    return reader.script(line)


def read_words(words: Sequence[str]) -> Script:
    """A command that no shell takes apart."""
    reader = _Reader()
    if SIGNS.intersection("".join(words)) or "\0" in "".join(words):
        reader.doubts.append("a character that is not what it looks like")
    reader.runs(list(words), ())
    return reader.script(unquoted(words))


class _Reader:
    def __init__(self, depth: int = 0, *, inner: bool = False) -> None:
        self.doubts: list[str] = []  # of all of it
        self._depth = depth
        self._inner = inner
        self._commands: list[Command] = []
        self._redirections: list[Redirection] = []
        self._folders: tuple[Folder, ...] = ("",)
        self._before: tuple[Folder, ...] = ("",)  # at the beginning of a chain of &&
        self._here: list[Here] = []
        self._documents: list[str] = []  # for the command that is read
        self._piped: str | None = None  # what the command before prints, where that is known
        self._is_piped = False
        self._cases = 0
        self._line = ""

    def read(self, line: str) -> None:
        self._line = line
        self._source = Source(line, self._inside, self._apart, self.doubts.append)
        try:
            self._list("")
        except Doubtful as why:
            self.doubts.append(str(why))
        except RecursionError:
            self.doubts.append("too many things inside of each other")

    def script(self, line: str) -> Script:
        doubts = tuple(dict.fromkeys(self.doubts))
        commands = [
            replace(one, doubts=tuple(dict.fromkeys(one.doubts + doubts)))
            for one in self._commands[:_MOST]
        ]
        if doubts and not commands:
            commands = [Command((), line, doubts=doubts)]
        return Script(tuple(commands), tuple(self._redirections))

    # -- lists -----------------------------------------------------------------------------------

    def _list(self, until: str) -> None:
        source = self._source
        while True:
            source.blanks()
            if not (c := source.peek()):
                if until:
                    raise Doubtful(f"a {until} is missing")
                self._take_documents()
                return
            if c == ")" and until == ")":
                source.at += 1
                return
            if source.take("\n"):
                self._take_documents()
                self._begin_chain()
            elif source.take(";;&", ";;", ";&"):
                self._pattern()
            elif source.take("&&"):
                self._is_piped = False
            elif source.take("||", ";"):
                self._begin_chain()
            elif source.sees("|"):
                source.take("|&", "|")
                self._is_piped = True
            elif c == "&" and not source.sees("&>"):
                source.at += 1
                self._begin_chain()
            elif source.sees("(("):
                self._arithmetic()
            elif source.take("("):
                self._inside(")")
            elif c == ")":
                raise Doubtful("a ) that nothing opened")
            else:
                self._simple()

    def _arithmetic(self) -> None:
        """Two subshells, to a shell that knows no such command."""
        start = self._source.at
        self._source.arithmetic()
        kept = len(self._redirections)
        self._hidden(self._source.text[start + 2 : self._source.at].rstrip(")"), inner=True)
        del self._redirections[kept:]

    def _inside(self, until: str) -> None:
        """Commands of a shell of their own, in this text."""
        if self._depth >= _DEEPEST:
            raise Doubtful("too many things inside of each other")
        self._depth += 1
        kept = (self._folders, self._before, self._documents, self._here, self._cases)
        piped = (self._piped, self._is_piped)
        self._documents, self._here, self._cases = [], [], 0
        self._piped, self._is_piped = None, False
        self._list(until)
        self._folders, self._before, self._documents, self._here, self._cases = kept
        self._piped, self._is_piped = piped
        self._depth -= 1

    def _apart(self, text: str) -> None:
        """Commands of a text of their own."""
        self._hidden(text, inner=self._inner)

    def _hidden(self, text: str, *, inner: bool) -> None:
        if self._depth >= _DEEPEST:
            raise Doubtful("too many things inside of each other")
        reader = _Reader(self._depth + 1, inner=inner)
        reader._folders = reader._before = self._folders
        reader.read(text)
        script = reader.script(text)
        self._commands += [replace(one, span=None) for one in script.commands]
        self._redirections += script.redirections

    def _begin_chain(self) -> None:
        self._is_piped, self._piped = False, None
        both = tuple(dict.fromkeys((*self._before, *self._folders)))
        self._folders = self._before = both if len(both) <= _MOST_FOLDERS else (None,)

    # -- the words of the language ---------------------------------------------------------------

    def _language(self, word: str) -> bool:
        """Whether this was a word of the language, after which a command may begin."""
        source = self._source
        match word:
            case "for" | "select":
                self._loop()
            case "case":
                source.blanks()
                source.word()
                self._skip_lines()
                named = source.word()
                if named is None or named.text != "in":
                    raise Doubtful("a case without in")
                self._cases += 1
                self._pattern()
            case "esac":
                self._cases = max(0, self._cases - 1)
            case "function":
                source.blanks()
                source.word()
                source.blanks()
                if source.take("("):
                    source.blanks()
                    source.take(")")
            case "coproc":
                self._coprocess()
            case "time":
                source.blanks()
                return source.peek() != "-"
            case "[[":
                self._condition()
            case _:
                return word in _AGAIN
        return True

    def _loop(self) -> None:
        source = self._source
        source.blanks()
        if source.sees("(("):
            source.arithmetic()
            return
        source.word()
        self._skip_lines()
        start = source.at
        word = source.word()
        if word is None or not word.plain or word.text != "in":
            source.at = start
            return
        while True:
            source.blanks()
            if source.word() is None:
                return

    def _pattern(self) -> None:
        """Of a case, up to its parenthesis; or the end of the case."""
        source = self._source
        if not self._cases:
            raise Doubtful("a ;; outside of a case")
        self._begin_chain()
        self._skip_lines()
        if not source.peek():
            raise Doubtful("a case without esac")
        start = source.at
        word = source.word()
        if word and word.plain and word.text == "esac":
            source.at = start
            return
        source.at = start
        source.take("(")
        while True:
            source.blanks()
            if source.take(")"):
                return
            if source.word() is None and not source.take("|"):
                raise Doubtful("a case that cannot be read")

    def _coprocess(self) -> None:
        """A name may stand before what is more than a simple command."""
        source = self._source
        source.blanks()
        start = source.at
        source.word()
        source.blanks()
        if not source.sees("(", "{ ", "{\n", "if ", "for ", "while ", "until ", "case ", "[["):
            source.at = start

    def _condition(self) -> None:
        source = self._source
        while True:
            source.blanks()
            word = source.word()
            if word and word.text == "]]":
                return
            if word and programs.is_code(word.text):
                self.doubts.append("a condition that would run a text")
            if word is None:
                if source.take("&&", "||", "<", ">", "(", ")", "\n", "|", ";", "&"):
                    self.doubts.append("a condition that sh reads as commands")
                else:
                    raise Doubtful("a ]] is missing")

    def _skip_lines(self) -> None:
        self._source.blanks()
        while self._source.take("\n", ";"):
            self._source.blanks()

    # -- one command -----------------------------------------------------------------------------

    def _simple(self) -> None:
        source = self._source
        words: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        kept, self._documents = self._documents, []
        start = end = source.at
        while True:
            source.blanks()
            if self._redirection():
                end = end if words else source.at
                start = start if words else source.at
                continue
            before = source.at
            word = source.word()
            if word is None:
                if source.peek() == "(" and self._parenthesis(words, assigned):
                    continue
                break
            if not words and (found := word.assignment()):
                assigned.append(found)
                source.blanks()
                start = source.at
                continue
            if not words and not assigned and word.plain and self._language(word.text):
                self._documents = kept
                return
            start = before if not words else start
            words.append(word)
            end = source.at
        self._finish(words, assigned, (start, end))
        self._documents = kept

    def _parenthesis(self, words: list[Word], assigned: list[tuple[str, Word]]) -> bool:
        """A function is defined, or a list assigned."""
        source = self._source
        if len(words) == 1 and not assigned:
            source.at += 1
            source.blanks()
            if not source.take(")"):
                raise Doubtful("a parenthesis after a word")
            words.clear()
            return False
        if assigned and not words and source.text[source.at - 1] == "=":
            source.at += 1
            while not source.take(")"):
                self._skip_lines()
                if source.word() is None and not source.sees(")"):
                    raise Doubtful("a list that cannot be read")
            return True
        raise Doubtful("a parenthesis after a word")

    def _finish(
        self, words: list[Word], assigned: list[tuple[str, Word]], span: tuple[int, int]
    ) -> None:
        fields: list[str] = []
        for word in words:
            found = word.fields()
            if found is None:
                raise Doubtful("braces that stand for many words")
            fields += found
        if fields:
            text_is_ours = self._source.text is self._line and not self._depth
            self.runs(fields, assigned, span if text_is_ours else None)
            return
        self._is_piped, self._piped = False, None
        for name, value in assigned:
            if steers(name):
                self.doubts.append(f"{name} changes what programs are or do")
            if programs.is_code(value.text):
                self.doubts.append(f"{name} holds what arithmetic would run")

    def runs(
        self,
        words: list[str],
        assigned: Sequence[tuple[str, Word]],
        span: tuple[int, int] | None = None,
    ) -> None:
        doubts = [
            f"{name} may change what the program does"
            for name, _ in assigned
            if not HARMLESS.fullmatch(name)
        ]
        prefix = [f"{name}={value.text}" for name, value in assigned]
        others: list[str] = []
        if prefix:
            others.append(joined([*prefix, *words]))
        given, kept = self._given(), self._inner
        while layer := wrappers.unwrap(words, given):
            doubts += layer.doubts
            self._inner |= layer.judged == "whole"
            for script in layer.scripts:
                self._hidden(script, inner=self._inner)
            inside = layer.words or (layer.scripts and not doubts)
            if layer.judged == "inner" and inside:
                others += [joined(words), *layer.others]
            else:
                self._inner = kept
                self._add(words, [*others, *layer.others], doubts, span)
                self._inner |= layer.judged == "whole"
                others, doubts = [], []
            span = None
            if not layer.words:
                break
            words = list(layer.words)
        else:
            self._add(words, others, doubts, span)
        self._inner = kept
        self._pipe(words)

    def _add(
        self,
        words: Sequence[str],
        others: Sequence[str],
        doubts: Sequence[str],
        span: tuple[int, int] | None,
    ) -> None:
        if len(self._commands) >= _MOST:
            raise Doubtful(f"more than {_MOST} commands")
        about = programs.about(words)
        readings = [*others, *about.others, unquoted(words)]
        self._commands.append(
            Command(
                words=tuple(words),
                text=about.text,
                others=tuple(one for one in dict.fromkeys(readings) if one != about.text),
                doubts=tuple(dict.fromkeys([*doubts, *about.doubts])),
                reads=about.reads,
                writes=about.writes,
                removes=about.removes,
                idle=about.idle,
                hosts=about.hosts,
                folders=self._folders,
                inner=self._inner,
                span=span,
            )
        )
        self._move(words)

    def _move(self, words: Sequence[str]) -> None:
        """`cd` changes what the paths after it are relative to."""
        if not words or words[0] not in ("cd", "chdir", "pushd", "popd"):
            return
        operands = [word for word in words[1:] if word == "-" or not word.startswith("-")]
        target = operands[0] if operands else "~"
        if words[0] == "popd" or target == "-" or len(operands) > 1 or is_open(target):
            self._folders = (None,)
        else:
            self._folders = tuple(dict.fromkeys(_join(base, target) for base in self._folders))

    # -- what goes in and out --------------------------------------------------------------------

    def _redirection(self) -> bool:
        source = self._source
        match = _REDIRECTION.match(source.text, source.at)
        if match is None or source.text.startswith(("<(", ">("), match.end() - 1):
            return False
        source.at = match.end()
        source.blanks()
        sign = match[2]
        word = source.word()
        if word is None:
            raise Doubtful(f"a {sign} to nothing")
        if sign in ("<<", "<<-"):
            self._here.append(Here(word.text, "q" in word.mask, sign == "<<-"))
        elif sign == "<<<":
            self._documents.append(word.text)
        else:
            self._file(sign, word)
        return True

    def _file(self, sign: str, word: Word) -> None:
        fields = word.fields() or [HOLE]
        for path in fields:
            if sign in (">&", "<&") and _COPIES.fullmatch(path):
                continue
            if not _NOT_FILES.fullmatch(path):
                writes = sign not in ("<", "<&")
                self._redirections.append(Redirection(path, writes, self._folders))

    def _take_documents(self) -> None:
        """Of the line that ends here. Who reads them has been judged; what they hold has not."""
        source = self._source
        here, self._here = self._here, []
        for document in here:
            lines = []
            while True:
                line = source.line()
                if line is None:
                    self.doubts.append(f"a here-document without its {document.end}")
                    break
                line = line.lstrip("\t") if document.tabs else line
                if line == document.end:
                    break
                lines.append(line)
            if not document.literal:
                if any(line.endswith("\\") for line in lines):  # bash may see the end there
                    self.doubts.append("a here-document whose lines go on in the next")
                source.expansions_of("\n".join(lines))

    def _given(self) -> wrappers.Given:
        """What the command that is read finds on its standard input, as far as that is known."""
        if self._documents:
            return wrappers.Given(text=self._documents[-1])
        if self._here:
            return wrappers.Given(text=self._peek_document(self._here[-1]))
        if self._is_piped:
            return wrappers.Given(text=self._piped, piped=True)
        return wrappers.Given()

    def _peek_document(self, here: Here) -> str | None:
        """The here-document that begins on the next line, while this line is not at its end."""
        if len(self._here) > 1:
            return None
        start = self._source.text.find("\n", self._source.at)
        if start < 0:
            return None
        lines: list[str] = []
        for line in self._source.text[start + 1 :].split("\n"):
            if (line.lstrip("\t") if here.tabs else line) == here.end:
                return "\n".join(lines)
            lines.append(line)
        return None

    def _pipe(self, words: Sequence[str]) -> None:
        """What this command prints, for the next of a pipeline."""
        said = unquoted(words)
        if words[0] in ("echo", "printf") and not (is_open(said) or "\\" in said or "%" in said):
            self._piped = unquoted([word for word in words[1:] if not word.startswith("-")])
        else:
            self._piped = None
        self._is_piped = False


def _join(base: Folder, target: str) -> Folder:
    if target.startswith(("/", "~")):
        return target
    return base if base is None else posixpath.join(base, target)
