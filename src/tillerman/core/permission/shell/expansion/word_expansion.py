"""Word expansion: splits words into fields, with placeholders for values known at run time only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from tillerman.core.permission.shell.expansion.arithmetic import ArithmeticNames
from tillerman.core.permission.shell.expansion.brace_expansion import expand_braces
from tillerman.core.permission.shell.expansion.globbing import Piece, globbed
from tillerman.core.permission.shell.expansion.parameter_operators import (
    elements,
    in_other_case,
    replaced,
    substring,
    trimmed,
)
from tillerman.core.permission.shell.expansion.substitution_output import (
    computed_by,
    is_program_output,
)
from tillerman.core.permission.shell.parsed_script import ANY, HOLE, is_open
from tillerman.core.permission.shell.parsing.syntax import (
    Arithmetic,
    ArrayValue,
    CommandSubstitution,
    ExtendedGlob,
    Literal,
    Parameter,
    Parts,
    ProcessSubstitution,
    Script,
    Subscript,
    Word,
)
from tillerman.core.permission.shell.shell_state import UNKNOWN_ARGUMENTS, ShellState, Value

BLANKS = " \t\n"
_PLAIN_TEXT = re.compile(r"[^*?\[{~]*")
_ASSIGNED = re.compile(
    r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*([A-Za-z_]\w*)"
    r"|([A-Za-z_]\w*)\s*(?:\+\+|--)"
)
WORKING = frozenset({"PWD", "OLDPWD"})
PROCESS_FILE = "/dev/fd/63"  # the file name of a process substitution
_LONGEST = 20_000  # characters of a field


class Shell(Protocol):
    """Runs the commands inside of words."""

    bash: bool
    arithmetic: ArithmeticNames

    def unread(self, reason: str) -> None: ...
    def substitute(self, script: Script, state: ShellState) -> str: ...
    def run_in_shell(self, script: Script, state: ShellState) -> ShellState: ...
    def substituted(self, text: str) -> None: ...  # a process substitution prints it


class Expansion:
    """Expands words in order; `state` is the state after them."""

    def __init__(self, shell: Shell, state: ShellState) -> None:
        self._shell = shell
        self.state = state
        self.runs_commands = False  # a command in a word was run
        self.unsure = False  # unknown arguments of the shell were treated as none
        self.computed = False  # the last word contains text computed by the line itself

    # -- words -----------------------------------------------------------------------------------

    def fields(self, word: Word) -> list[str]:
        parts = word.parts
        if len(parts) == 1 and isinstance(parts[0], Literal):
            literal = parts[0]
            if literal.quoted or _PLAIN_TEXT.fullmatch(literal.text):
                self.computed = False
                return [literal.text]
        self.computed = False
        found: list[str] = []
        for one in expand_braces(parts) if self._shell.bash else [parts]:
            found += self._split(one)
        return found

    def text(self, word: Word | None) -> str:
        """One text, without splitting and globbing: a value, a here-document."""
        if word is None or not word.parts:
            return ""
        if len(word.parts) == 1 and isinstance(word.parts[0], Literal):
            literal = word.parts[0]
            if literal.quoted or not literal.text.startswith("~"):
                return literal.text
        self.computed = False
        parts = self._with_home(word.parts)
        found = "".join(
            "".join(" ".join(part) if isinstance(part, tuple) else part for part in [self._part(
                parts, at)]) for at in range(len(parts))
        )  # fmt: skip
        return found if len(found) <= _LONGEST else HOLE

    def array(self, value: ArrayValue) -> tuple[str, ...]:
        found: list[str] = []
        for item in value.items:
            if any(isinstance(part, Subscript) for part in item.parts):
                for part in item.parts:
                    if isinstance(part, Subscript):
                        self.count(part.word)
                        self._shell.arithmetic.store(self.text(part.word))
                self.text(Word(tuple(p for p in item.parts if not isinstance(p, Subscript))))
                found.append(HOLE)
            else:
                found += self.fields(item)
        for text in found:
            self._shell.arithmetic.store(text)
        return tuple(found) if len(found) <= 500 else (HOLE,)

    def count(self, word: Word) -> None:
        """Records a word in an arithmetic context: a subscript, an offset."""
        text = self.text(word)
        raw = "".join(
            part.text if isinstance(part, Literal) else f"${part.name}" if isinstance(
                part, Parameter) else "" for part in word.parts
        )  # fmt: skip
        computed = computed_by(word.parts)
        if HOLE in text or not text.lstrip("-").isdigit():
            self._shell.arithmetic.count(raw, **computed)
            names = [part.name for part in word.parts if isinstance(part, Parameter)]
            self._shell.arithmetic.count(" ".join(names))

    # -- parts -----------------------------------------------------------------------------------

    def _with_home(self, parts: Parts) -> Parts:
        """Replaces a leading `~`, if the line determines its value."""
        first = parts[0] if parts else None
        if not isinstance(first, Literal) or first.quoted or not first.text.startswith("~"):
            return parts
        user, slash, rest = first.text.partition("/")
        if len(parts) > 1 and not slash:
            return parts  # a quote or an expansion after it makes it a plain character
        if user == "~":
            home = self.state.variables.get("HOME")
            if home is None:
                return parts
            value = home if isinstance(home, str) else HOLE
            return (Literal(value, quoted=True), Literal(slash + rest), *parts[1:])
        if user in ("~+", "~-"):
            value = self._directory_of("PWD" if user == "~+" else "OLDPWD") or HOLE
            if not self._shell.bash:
                value = f"./{user}"  # a plain name
            return (Literal(value, quoted=True), Literal(slash + rest), *parts[1:])
        if user[1:2] in "+-0123456789" and user[1:]:
            return (Literal(HOLE), Literal(slash + rest), *parts[1:])
        return parts

    def _directory_of(self, name: str) -> str | None:
        """The value of PWD or OLDPWD, as long as the line does not assign it."""
        state = self.state
        if name in state.variables:
            return None
        return state.path_of(state.directories if name == "PWD" else state.previous)

    def _split(self, parts: Parts) -> list[str]:
        parts = self._with_home(parts)
        fields: list[list[Piece]] = []
        current: list[Piece] | None = None  # None between two fields
        for at, part in enumerate(parts):
            found = self._part(parts, at)
            if isinstance(part, Literal):
                current = current or []
                current.append((part.text, part.quoted))
                continue
            quoted = getattr(part, "quoted", False)
            if isinstance(found, tuple):
                for place, one in enumerate(found):
                    if place:
                        fields.append(current or [])
                        current = []
                    current = current or []
                    current.append((one, quoted))
                continue
            if quoted:
                current = current or []
                current.append((found, True))
                continue
            for place, one in enumerate(self._words(found)):
                if place and current is not None:
                    fields.append(current)
                    current = None
                if one:
                    current = current or []
                    current.append((one, isinstance(part, ExtendedGlob)))
        if current is not None:
            fields.append(current)
        options = self.state.options
        found_fields = [globbed(one, options) for one in fields]
        return [one if len(one) <= _LONGEST else HOLE for one in found_fields]

    def _words(self, text: str) -> list[str]:
        """Splits by IFS; an empty first or last item marks a blank there."""
        separators = self.state.variables.get("IFS", BLANKS)
        if separators == BLANKS:
            if not any(blank in text for blank in BLANKS):
                return [text]
            found = text.split()
            lead = [""] if text[:1] in BLANKS else []
            return [*lead, *found, *([""] if text[-1:] in BLANKS else [])]
        if separators == "" or not text:
            return [text]
        return [HOLE]

    def _part(self, parts: Parts, at: int) -> str | tuple[str, ...]:
        part = parts[at]
        match part:
            case Literal():
                return part.text
            case Parameter():
                return self._parameter(part, parts, at)
            case CommandSubstitution():
                self.runs_commands = True
                self.computed |= not is_program_output(part.body)
                if part.in_shell:
                    self.state = self._shell.run_in_shell(part.body, self.state)
                    return HOLE
                return self._shell.substitute(part.body, self.state)
            case ProcessSubstitution() if not part.body.commands:
                return ""  # bash leaves out an empty one
            case ProcessSubstitution():
                self.runs_commands = True
                printed = self._shell.substitute(part.body, self.state)
                computed = not is_program_output(part.body)
                self._shell.substituted(printed if computed else "")
                self.computed |= computed
                return PROCESS_FILE
            case Arithmetic():
                self.arithmetic(part)
                return HOLE
            case ExtendedGlob():
                self.text(Word(part.parts))
                begins = at == 0 or str(getattr(parts[at - 1], "text", "")).endswith("/")
                wide = "/" in part.text or is_open(part.text) or "$" in part.text
                hidden = begins and ("." in part.text or "!" in part.text)
                return HOLE if wide or hidden else ANY
            case ArrayValue():
                self.array(part)
                return HOLE
        return ""

    def arithmetic(self, part: Arithmetic) -> None:
        self.text(Word(part.parts))
        self._shell.arithmetic.count(_without_commands(part), **computed_by(part.parts))
        for names in _ASSIGNED.findall(part.text):
            self.state = self.state.assigned(next(filter(None, names)), HOLE)

    # -- parameters ------------------------------------------------------------------------------

    def _parameter(self, part: Parameter, parts: Parts, at: int) -> str | tuple[str, ...]:
        operator = part.operator
        if part.subscript is not None and self._index(part.subscript) is None:
            self.count(part.subscript)
        if part.indirect:
            self._indirect(part)
            return HOLE
        if operator == "":
            return self._value_of(part, parts, at)
        if operator.startswith("@") and operator != "@Q":
            if operator == "@P":
                self._shell.unread("a value that is expanded once more")
            return HOLE
        value = self._lookup(part)
        if value is None and part.name == "IFS":
            value = BLANKS
        if operator == ":":
            self.count(part.word or Word(()))
            return self._range(part, value)
        known = isinstance(value, str) and not is_open(value)
        if operator in ("-", ":-", "=", ":=", "?", ":?"):
            return self._default(part, value)
        alternative = self.text(part.word)
        if operator in ("+", ":+"):
            if known and (value or operator == "+"):
                return alternative
            return HOLE
        if not isinstance(value, str):
            return HOLE
        self.computed = True
        if operator in ("%", "%%", "#", "##"):
            return self._below_start(value, trimmed(value, operator, part.word))
        if operator in ("/", "//") and "nocasematch" not in self.state.options:
            return self._below_start(value, replaced(value, operator, part.word))
        if operator in ("^", "^^", ",", ",,"):
            return self._below_start(value, in_other_case(value, operator, part.word))
        return HOLE

    def _below_start(self, value: str, changed: str) -> str:
        """The changed value; HOLE if an operator cut into the path of the start directory.

        The shell may spell that path differently, so what is left of it is unknown.
        """
        start = self.state.start
        cut = bool(start) and value.startswith(start) and not changed.startswith(start)
        return HOLE if cut else changed

    def _range(self, part: Parameter, value: Value | None) -> str | tuple[str, ...]:
        """A range of a text, or of the elements of an array."""
        self.computed = True
        if isinstance(value, str) and part.name not in ("@", "*"):
            return self._below_start(value, substring(value, part.word))
        if not isinstance(value, tuple) or part.name == "*" or value == UNKNOWN_ARGUMENTS:
            return HOLE
        found = elements(value, part.word, first=1 if part.name == "@" else 0)
        if found is None:
            return HOLE
        return found if part.quoted else " ".join(found)

    def _default(self, part: Parameter, value: Value | None) -> str | tuple[str, ...]:
        known = value is not None and not (isinstance(value, str) and is_open(value))
        alternative = self.text(part.word)
        if known and (value or not part.operator.startswith(":")):
            return value if value is not None else HOLE
        if part.operator in ("=", ":="):
            self.state = self.state.assigned(part.name, HOLE)
            self._shell.arithmetic.assign(part.name, alternative or "x")
        if known and value == "" and "?" not in part.operator:
            return alternative
        return HOLE

    def _value_of(self, part: Parameter, parts: Parts, at: int) -> str | tuple[str, ...]:
        value = self._lookup(part)
        if part.name in ("@", "*") and self.state.positional is None and len(parts) > 1:
            self.unsure = True
            return ""
        if value is None:
            if part.name == "HOME":
                return "~" if _stands_alone(parts, at) else HOLE
            if part.name == "IFS":
                return BLANKS
            if part.name in WORKING and part.subscript is None:
                return self._directory_of(part.name) or HOLE
            return HOLE
        self.computed |= part.name not in ("HOME", "IFS")
        if isinstance(value, str):
            return value
        return value if part.quoted and len(value) <= 100 else " ".join(value)

    def _lookup(self, part: Parameter) -> Value | None:
        """The value; None if the line does not determine it."""
        name = part.name
        if name in ("@", "*"):
            self.computed |= self.state.positional is None
            if self.state.positional is None:
                return HOLE
            return self.state.positional if name == "@" else self._joined(self.state.positional)
        if name.isdigit():
            number = int(name[:6])
            if self.state.positional is None or not number:
                return HOLE
            given = self.state.positional
            if any(map(is_open, given[:number])):
                return HOLE
            return given[number - 1] if number <= len(given) else ""
        value = self.state.variables.get(name)
        if value is None:
            return None if name.isidentifier() else HOLE
        index = "0" if part.subscript is None else self._index(part.subscript)
        if part.operator == "length":
            return HOLE
        if index == "@" or (index == "*" and isinstance(value, str)):
            return value
        if index == "*":
            return self._joined(value)
        if index is None or (isinstance(value, tuple) and any(map(is_open, value))):
            return HOLE
        if isinstance(value, str):
            return value if index == "0" else HOLE
        return value[int(index)] if int(index) < len(value) else ""

    def _joined(self, values: Sequence[str]) -> str:
        """Joins by the first character of IFS."""
        return " ".join(values) if self.state.variables.get("IFS", BLANKS) == BLANKS else HOLE

    def _index(self, subscript: Word) -> str | None:
        text = subscript.plain
        if text is None and len(subscript.parts) == 1 and isinstance(subscript.parts[0], Literal):
            text = subscript.parts[0].text
        return text if text is not None and (text in "@*" or text.isdigit()) else None

    def _indirect(self, part: Parameter) -> None:
        if part.subscript is None and part.inner.endswith(("@", "*")):
            return  # names with a prefix
        if part.subscript is not None and self._index(part.subscript) in ("@", "*"):
            return  # the keys of an array
        self.text(part.word)
        self._shell.arithmetic.count(part.name)


def _without_commands(part: Arithmetic) -> str:
    """The names in it: of variables, and of expansions."""
    found: list[str] = []
    for one in part.parts:
        if isinstance(one, Literal):
            found.append(one.text)
        elif isinstance(one, Parameter):
            found.append(f" ${one.name} {one.name if one.name.isidentifier() else ''} ")
    return "".join(found)


def _stands_alone(parts: Parts, at: int) -> bool:
    """Whether a path begins with this part and continues below it, if at all."""
    if at and not (isinstance(parts[at - 1], Literal) and parts[at - 1].text.endswith(("=", ":"))):  # type: ignore[union-attr]
        return False
    if at + 1 == len(parts):
        return True
    following = parts[at + 1]
    return isinstance(following, Literal) and following.text.startswith(("/", ":"))
