"""Decides which command lines a session's policy rules deny.

Only rules on commands are evaluated here. The first matching rule decides, as in the policy: a
command that an earlier rule allows, asks about or rewrites is let through.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import json
from msgspec.structs import replace

from tillerman.core.permission.action import PolicyAction
from tillerman.core.permission.path_location import DecisionContext
from tillerman.core.permission.patterns import text_glob
from tillerman.core.permission.rules import Rule
from tillerman.core.permission.shell.parsed_script import (
    HOLE,
    SIGNS,
    ParsedCommand,
    joined,
    unquoted,
)
from tillerman.core.permission.shell.reader import read_words
from tillerman.supervision.exec_gate.exec_policy import ExecPolicy, denied_commands, unenforceable

_SHELL = frozenset({"Bash", "shell"})  # the tool and the class that commands are matched as
# the commands that these shells run are checked when they run them
_SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "yash", "zsh"})
_REPLACED = str.maketrans(dict.fromkeys(SIGNS, "\ufffd"))
_MOST_REMEMBERED = 4096
_REMEMBERED_UP_TO = 4096  # bytes of a command line


class CommandRules:
    def __init__(self, policy: ExecPolicy) -> None:
        self._groups = tuple(
            tuple(rule for rule in rules if unenforceable(rule) is None)
            for rules in (policy.rules, policy.tightening)
        )
        self._context = DecisionContext(cwd=PurePosixPath(policy.workspace), agent=policy.agent)
        denied = [rule for group in self._groups for rule in denied_commands(group)]
        heads = {_program(one) for rule in denied for one in rule.commands}
        self.programs = frozenset(os.fsencode(head) for head in heads)
        self._heads = tuple({head.rsplit(b"/", 1)[-1] for head in self.programs})
        self._known: dict[tuple[str, tuple[bytes, ...]], Rule | None] = {}

    @classmethod
    def decoded(cls, policy: bytes) -> CommandRules:
        return cls(json.decode(policy, type=ExecPolicy))

    @property
    def denies(self) -> bool:
        return bool(self._heads)

    def denial(self, words: tuple[bytes, ...], directory: str, *, cut: bool = False) -> Rule | None:
        """Returns the rule that denies this command line in `directory`.

        `cut`: more arguments follow; then it is denied if it may continue to a denied command line.
        """
        text = b"\0".join(words)
        if not any(head in text for head in self._heads):
            return None  # it does not contain the name of any denied program
        if cut or len(text) > _REMEMBERED_UP_TO:
            return self._decide(words, directory, cut=cut)
        key = (directory, words)
        if key not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = self._decide(words, directory, cut=False)
        return self._known[key]

    def _decide(self, words: tuple[bytes, ...], directory: str, *, cut: bool) -> Rule | None:
        plain = [os.fsdecode(word).translate(_REPLACED) for word in words]
        plain[0] = plain[0] or "''"
        for found in _commands([*plain, HOLE] if cut else plain):
            # effects of the program's arguments are not checked here
            command = replace(found, doubts=(), directories=(directory,))
            act = PolicyAction(
                "command", "Bash", _SHELL, _SHELL, command=command, derived=command.inner
            )
            for group in self._groups:
                rule = self._first(group, act, cut=cut)
                if rule is not None and rule.verdict == "deny":
                    return rule
        return None

    def _first(self, rules: Sequence[Rule], act: PolicyAction, *, cut: bool) -> Rule | None:
        for rule in rules:
            if rule.mentions(act) and rule.concerns(act):
                match = rule.matches(act, self._context).certainty
                if match == "yes" or (cut and match == "maybe" and rule.verdict == "deny"):
                    return rule
        return None


def _commands(words: list[str]) -> list[ParsedCommand]:
    name = words[0].rsplit("/", 1)[-1]
    short = [name, *words[1:]]
    if name in _SHELLS:
        return [ParsedCommand(tuple(short), joined(short), (joined(words), unquoted(short)))]
    found = list(read_words(words).commands)
    if name != words[0]:
        found += read_words(short).commands
    if name.startswith("git-"):  # a git subcommand that can be run directly
        found += read_words(["git", name.removeprefix("git-"), *words[1:]]).commands
    return found


def _program(pattern: str) -> str:
    """Returns the literal prefix of the program that a pattern names."""
    return text_glob(pattern).pieces[0].partition(" ")[0]
