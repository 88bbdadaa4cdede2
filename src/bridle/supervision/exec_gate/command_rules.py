"""Which command lines the rules of a session deny: the rules of its policy, read the same way.

Only rules on commands can be judged here. What they allow, ask about or rewrite before a rule that
denies is let through: the first rule that matches decides, as in the policy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, json
from msgspec.structs import replace

from bridle.core.permission.acts import Act
from bridle.core.permission.globs import text_glob
from bridle.core.permission.rules import Rule
from bridle.core.permission.shell.reader import read_words
from bridle.core.permission.shell.script import HOLE, SIGNS, Command, joined, unquoted
from bridle.core.permission.spots import Context

_SHELL = frozenset({"Bash", "shell"})  # the tool and the class that commands are judged as
# what these are told to run is judged when they run it
_SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "yash", "zsh"})
_REPLACED = str.maketrans(dict.fromkeys(SIGNS, "\ufffd"))
_MOST_REMEMBERED = 4096
_REMEMBERED_UP_TO = 4096  # bytes of a command line


class ExecPolicy(Struct, frozen=True, omit_defaults=True):
    """What the gate is told: the rules in their order, and who they are for."""

    rules: tuple[Rule, ...] = ()
    tightening: tuple[Rule, ...] = ()  # count only where they are stricter
    agent: str = ""

    def encoded(self) -> bytes:
        return json.encode(self)


def unenforceable(rule: Rule) -> str | None:
    """Why the gate does not judge by this rule; None for one that it does."""
    if rule.paths:
        return "it names files as well"
    if rule.hosts:
        return "it names hosts"
    if rule.servers:
        return "it names tools of MCP servers"
    if rule.modes is not None:
        return "it holds in some modes alone"
    if rule.line is not None:
        return "it names a whole command line"
    if rule.verdict == "deny" and not rule.commands:
        return "it names no command"
    return None


def denied_commands(rules: Iterable[Rule]) -> list[Rule]:
    """The rules that make a gate worth having."""
    return [rule for rule in rules if rule.verdict == "deny" and unenforceable(rule) is None]


class CommandRules:
    def __init__(self, policy: ExecPolicy) -> None:
        self._groups = tuple(
            tuple(rule for rule in rules if unenforceable(rule) is None)
            for rules in (policy.rules, policy.tightening)
        )
        self._context = Context(cwd=PurePosixPath("/"), agent=policy.agent)
        denied = [rule for group in self._groups for rule in denied_commands(group)]
        heads = {_program(one) for rule in denied for one in rule.commands}
        self.programs = frozenset(os.fsencode(head) for head in heads)
        self._heads = tuple(self.programs)
        self._known: dict[tuple[bytes, ...], Rule | None] = {}

    @classmethod
    def decoded(cls, policy: bytes) -> CommandRules:
        return cls(json.decode(policy, type=ExecPolicy))

    @property
    def denies(self) -> bool:
        return bool(self._heads)

    def denial(self, words: tuple[bytes, ...], *, cut: bool = False) -> Rule | None:
        """The rule that denies this command line. `cut`: it goes on after these words, and is
        denied where it may come to one that is."""
        size = sum(map(len, words)) + len(words)
        if not self._may_be_denied(words):
            return None
        if cut or size > _REMEMBERED_UP_TO:
            return self._decide(words, cut=cut)
        if words not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[words] = self._decide(words, cut=False)
        return self._known[words]

    def _may_be_denied(self, words: tuple[bytes, ...]) -> bool:
        """False for a line that no denied program's name stands in."""
        text = b"\0".join(words)
        return any(head in text for head in self._heads)

    def _decide(self, words: tuple[bytes, ...], *, cut: bool) -> Rule | None:
        plain = [os.fsdecode(word).translate(_REPLACED) for word in words]
        plain[0] = plain[0] or "''"
        for command in _commands([*plain, HOLE] if cut else plain):
            act = Act("command", "Bash", _SHELL, _SHELL, command=command, derived=command.inner)
            for group in self._groups:
                rule = self._first(group, act, cut=cut)
                if rule is not None and rule.verdict == "deny":
                    return rule
        return None

    def _first(self, rules: Sequence[Rule], act: Act, *, cut: bool) -> Rule | None:
        for rule in rules:
            if rule.speaks_of(act) and rule.concerns(act):
                match = rule.matches(act, self._context)
                if match == "yes" or (cut and match == "maybe" and rule.verdict == "deny"):
                    return rule
        return None


def _commands(words: list[str]) -> list[Command]:
    name = words[0].rsplit("/", 1)[-1]
    short = [name, *words[1:]]
    if name in _SHELLS:
        return [Command(tuple(short), joined(short), (joined(words), unquoted(short)))]
    found = list(read_words(words).commands)
    if name != words[0]:
        found += read_words(short).commands
    if name.startswith("git-"):  # a part of git that can be run by itself
        found += read_words(["git", name.removeprefix("git-"), *words[1:]]).commands
    return [_certain(command) for command in found]


def _certain(command: Command) -> Command:
    """What a program does with its arguments is not in question here."""
    return replace(command, doubts=()) if command.doubts else command


def _program(pattern: str) -> str:
    """The literal beginning of the program that a pattern names."""
    return text_glob(pattern).pieces[0].partition(" ")[0].rsplit("/", 1)[-1]
