"""Reads a command line: every simple command in it, wherever the shell would find one.

What the language puts around commands is looked through: pipelines, lists, subshells, groups,
loops, conditions, functions, substitutions, here-documents, and programs that run others. What
cannot be read for certain is a doubt of the commands it touches.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from msgspec.structs import replace

from bridle.core.permission.shell import old_programs as programs
from bridle.core.permission.shell import wrappers
from bridle.core.permission.shell.folders import Folders
from bridle.core.permission.shell.inputs import Here, Inputs
from bridle.core.permission.shell.language import Language
from bridle.core.permission.shell.numbers import Numbers
from bridle.core.permission.shell.script import (
    HOLE,
    SIGNS,
    Command,
    Redirection,
    Script,
    joined,
    unquoted,
)
from bridle.core.permission.shell.source import Doubtful, Source
from bridle.core.permission.shell.variables import HARMLESS, changes, steers
from bridle.core.permission.shell.words import Word

LONGEST = 100_000
_DEEPEST = 24
_MOST = 500  # commands
_MOST_HIDDEN = 3 * LONGEST  # characters for a shell inside of others
_HIDDEN_COST = 1_000
_REDIRECTION = re.compile(r"(\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>>|>\||>&|&>>|&>|<|>)(!(?=\s))?")
_COPIES = re.compile(r"\d*-?")
_NOT_FILES = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|fd/\d+|zero|urandom|random)")
_COUNTS = re.compile(r"\s*(\d+|[A-Za-z_]\w*(\+\+|--|[-+*/%]?=\w*))\s*")  # runs nothing anywhere
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
        self._hides = [0]  # characters inside of others, counted for all of them
        self._inner = inner
        self._commands: list[Command] = []
        self._redirections: list[Redirection] = []
        self._folders = Folders()
        self._moved = False  # to another folder
        self._strays = False  # what moves may run before what was read before it
        self._inputs = Inputs()
        self._numbers = Numbers()  # of this shell and all inside of it
        self._begin("")

    def _begin(self, line: str) -> None:
        self._line = line
        self._source = Source(line, self._inside, self._apart, self.doubts.append, self._numbers)
        self._language = Language(self._source, self.doubts.append, self._line_ends, self._numbers)

    def read(self, line: str) -> None:
        self._begin(line)
        try:
            self._list("")
        except Doubtful as why:
            self.doubts.append(str(why))
        except RecursionError:
            self.doubts.append("too many things inside of each other")

    def script(self, line: str) -> Script:
        doubts = tuple(dict.fromkeys([*self.doubts, *self._numbers.doubts()]))
        commands = [
            replace(one, doubts=tuple(dict.fromkeys(one.doubts + doubts))) for one in self._commands
        ]
        if doubts and not commands:
            commands = [Command((), line, doubts=doubts)]
        redirections = self._redirections
        if self._strays or (self._moved and self._language.later):
            commands = [replace(one, folders=(None,)) for one in commands]
            redirections = [replace(one, folders=(None,)) for one in redirections]
        return Script(tuple(commands), tuple(redirections))

    # -- lists -----------------------------------------------------------------------------------

    def _list(self, until: str) -> None:
        source = self._source
        while True:
            source.blanks()
            if not (c := source.peek()):
                if until:
                    raise Doubtful(f"a {until} is missing")
                self._line_ends()
                return
            if c == ")" and until == ")":
                source.at += 1
                return
            if source.take("\n"):
                self._line_ends()
                self._end_chain()
            elif source.take(";;&", ";;", ";&"):
                self._end_chain()
                self._language.pattern()
            elif source.take("&&"):
                self._inputs.chain_ends()
            elif source.take("||", ";"):
                self._end_chain()
            elif source.take("|&", "|"):
                self._inputs.pipe()
            elif c == "&" and not source.sees("&>"):
                source.at += 1
                self._end_chain()
            elif source.sees("(("):
                self._arithmetic()
            elif source.take("("):
                self._inside(")")
            elif c == ")":
                raise Doubtful("a ) that nothing opened")
            else:
                before = source.at
                self._simple()
                if source.at == before:
                    raise Doubtful(f"a {c} where none belongs")

    def _arithmetic(self) -> None:
        """Two subshells, to a shell that knows no such command."""
        start = self._source.at
        self._source.arithmetic()
        inside = self._source.text[start + 2 : self._source.at].rstrip(")")
        if not _COUNTS.fullmatch(inside):
            self._hidden(inside, inner=self._inner)

    def _inside(self, until: str) -> None:
        """Commands of a shell of their own, in this text."""
        if self._depth >= _DEEPEST:
            raise Doubtful("too many things inside of each other")
        self._depth += 1
        language = self._language
        kept = (self._folders, self._inputs, language.cases, language.loops)
        self._folders, self._inputs = self._folders.entered(), Inputs()
        language.cases = language.loops = 0
        self._list(until)
        if self._inputs.leave(kept[1]):
            self.doubts.append("a here-document that is open where its commands end")
        self._folders, self._inputs, language.cases, language.loops = kept
        self._depth -= 1

    def _apart(self, text: str) -> None:
        """Commands of a text of their own."""
        self._hidden(text, inner=self._inner)

    def _hidden(self, text: str, *, inner: bool, stays: bool = False) -> None:
        """`stays`: it is this shell that runs it."""
        if self._depth >= _DEEPEST:
            raise Doubtful("too many things inside of each other")
        self._hides[0] += len(text) + _HIDDEN_COST
        if self._hides[0] > _MOST_HIDDEN or len(self._commands) > _MOST:
            raise Doubtful("too many commands inside of others")
        reader = _Reader(self._depth + 1, inner=inner)
        reader._hides, reader._numbers = self._hides, self._numbers
        reader._folders = self._folders.entered()
        reader.read(text)
        script = reader.script(text)
        self._commands += [replace(one, span=None) for one in script.commands]
        self._redirections += script.redirections
        if stays:
            reader._folders.chain_ends()
            self._folders.now = reader._folders.now
            self._moves(reader._moved)
            self._language.later |= reader._language.later

    def _moves(self, moved: bool) -> None:
        self._moved |= moved
        self._strays |= moved and self._language.loops > 0

    def _line_ends(self) -> None:
        self._inputs.take_documents(self._source, self.doubts.append)

    def _end_chain(self) -> None:
        self._inputs.chain_ends()
        self._folders.chain_ends()

    # -- one command -----------------------------------------------------------------------------

    def _simple(self) -> None:
        source = self._source
        words: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        self._inputs.begin()
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
                self._assign(source.text[before : source.at])
                source.blanks()
                start = source.at
                continue
            if not words and not assigned and word.plain and self._language.knows(word.text):
                return
            start = before if not words else start
            words.append(word)
            end = source.at
        self._finish(words, assigned, (start, end))

    def _assign(self, written: str) -> None:
        name, _, value = written.partition("=")
        name, bracket, subscript = name.rstrip("+").partition("[")
        self._numbers.assign(name, value)
        if bracket:
            self._numbers.count(subscript)

    def _parenthesis(self, words: list[Word], assigned: list[tuple[str, Word]]) -> bool:
        """A function is defined, or a list assigned."""
        source = self._source
        if len(words) == 1 and not assigned:
            source.at += 1
            source.blanks()
            if not source.take(")"):
                raise Doubtful("a parenthesis after a word")
            self._numbers.define()
            self._language.later = True
            words.clear()
            return False
        if assigned and not words and source.text[source.at - 1] == "=":
            source.at += 1
            while not source.take(")"):
                self._language.skip_lines()
                self._numbers.assign(assigned[-1][0], HOLE)
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
        self._inputs.chain_ends()
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
        given, kept = self._inputs.given(self._source), self._inner
        layers = 0
        outside: Folders | None = None
        while layer := wrappers.unwrap(words, given):
            layers += 1
            if layers > _DEEPEST:
                raise Doubtful("too many things inside of each other")
            doubts += layer.doubts
            self._inner |= layer.judged == "whole"
            if layer.folder is not None:
                outside = outside or self._folders
                self._folders = self._folders.entered()
                self._folders.move(["cd", layer.folder])
            for script in layer.scripts:
                self._hidden(script, inner=self._inner, stays=words[0] == "eval")
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
        self._folders = outside or self._folders
        self._inputs.printed(words, self._source)

    def _add(
        self,
        words: Sequence[str],
        others: Sequence[str],
        doubts: Sequence[str],
        span: tuple[int, int] | None,
    ) -> None:
        if len(self._commands) >= _MOST:
            raise Doubtful(f"more than {_MOST} commands")
        if words and (change := changes(words)):
            self.doubts.append(change)
        if words:
            self._numbers.run(words)
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
                folders=self._folders.now,
                inner=self._inner,
                span=span,
            )
        )
        before = self._folders.now
        self._folders.move(words)
        self._moves(self._folders.now != before)

    # -- what goes in and out --------------------------------------------------------------------

    def _redirection(self) -> bool:
        source = self._source
        match = _REDIRECTION.match(source.text, source.at)
        if match is None or (match[0] in ("<", ">") and source.text.startswith("(", match.end())):
            return False
        source.at = match.end()
        source.blanks()
        sign, stdin = match[2], match[1] in (None, "0")
        word = source.word()
        if word is None:
            raise Doubtful(f"a {sign} to nothing")
        if sign in ("<<", "<<-"):
            here = Here(word.text, "q" in word.mask, sign == "<<-")
            self._inputs.document(here, source.at, stdin=stdin)
        elif sign == "<<<":
            self._inputs.string(word.text, stdin=stdin)
        else:
            if sign.startswith("<"):
                self._inputs.file()
            self._file(sign, word)
        return True

    def _file(self, sign: str, word: Word) -> None:
        fields = word.fields() or [HOLE]
        for path in fields:
            if sign in (">&", "<&") and _COPIES.fullmatch(path):
                continue
            if len(self._redirections) >= _MOST:
                raise Doubtful(f"more than {_MOST} redirections")
            if not _NOT_FILES.fullmatch(path):
                writes = sign not in ("<", "<&")
                self._redirections.append(Redirection(path, writes, self._folders.now))
