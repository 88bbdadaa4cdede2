"""What is decided, shown, rewritten and run is the same text, whatever characters it contains."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import PurePosixPath
from random import Random

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy
from tillerman.core.permission.hidden_characters import hidden_characters, visible
from tillerman.core.permission.remembered_rule import rule_for
from tillerman.core.permission.shell.reader import read

HERE = DecisionContext(PurePosixPath("/ws"), home=PurePosixPath("/home/me"))
CI = rule_of({"rewrite": "npm ci", "command": ["npm install", "npm i"]}, "rules.toml:1", name="ci")
PRESETS = ("ask", "edits", "auto")
LINES = (
    "npm install",
    "cd web && npm  install # now",
    "CI=1 npm i 2>&1 | tail; npm install",
    "#aaaaaaaaaa; touch mark\nnpm install",
    "echo 'npm install'; npm install",
    "npm install && echo done",
)


def bash(line: str) -> PermissionRequested:
    return PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})


def one_of_each_category() -> list[str]:
    """Two characters of every category: the first, and one at random."""
    found: dict[str, list[str]] = {}
    for code in range(sys.maxunicode + 1):
        found.setdefault(unicodedata.category(chr(code)), []).append(chr(code))
    chance = Random(13)
    return [c for row in found.values() for c in {row[0], chance.choice(row)}]


CHARACTERS = one_of_each_category()
INVISIBLE = [
    "\u200b",
    "\ufe0f",
    "\ufe0e",
    "\u200c",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\xad",
    "\u061c",
    "\u180e",
    "\u202e",
    "\u2066",
    "\u3164",
    "\u115f",
    "\uffa0",
    "\u2800",
    "\u034f",
    "\ufe00",
    "\U000e0041",
    "\U000e0100",
    "\r",
    "\x00",
    "\x07",
    "\x1b",
    "\x7f",
    "\x85",
    "\x9b",
    "\xa0",
    "\u2003",
    "\u2028",
    "\u2029",
    "\ue000",
    "\ue001",
    "\ue002",
    "\ud800",
]


def test_a_line_that_once_ran_undecided_is_asked_about_and_not_rewritten() -> None:
    rest = "#aaaaaaaaaa; touch mark\nnpm install"
    line = "\u200b" * rest.index("npm install") + rest
    for preset in PRESETS:
        decision = Policy.preset(preset, rules=[CI]).decide(bash(line), HERE)
        assert (decision.verdict, decision.rule, decision.input) == ("ask", "guard.hidden", None)
        assert "⟨U+200B⟩ 24 times" in decision.note


def test_a_line_with_a_hidden_character_is_always_asked_about() -> None:
    """Even if a rule allows all commands, or this very line was allowed for good."""
    everything = rule_of({"allow": True, "tool": "shell"}, "rules.toml:1")
    for character in INVISIBLE:
        for line in LINES:
            for at in (0, 3, len(line)):
                asked = bash(line[:at] + character + line[at:])
                for preset in PRESETS:
                    decision = Policy.preset(preset, rules=[everything, CI]).decide(asked, HERE)
                    assert (decision.verdict, decision.rule) == ("ask", "guard.hidden"), asked
                assert rule_for(asked) is None
                assert visible(character) in decision.note


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.torture)])
def test_a_rewritten_line_reads_as_the_old_one_with_the_command_replaced(step: int) -> None:
    """Every category of characters at every place of every line, or at some of them."""
    rewritten = 0
    for number, character in enumerate(CHARACTERS):
        for line in LINES:
            for at in range(number % step, len(line) + 1, step):
                text = line[:at] + character + line[at:]
                decision = Policy.preset("auto", rules=[CI]).decide(bash(text), HERE)
                if decision.verdict != "rewrite":
                    continue
                rewritten += 1
                assert decision.input is not None
                assert not hidden_characters(text)
                before = [one.words for one in read(text).commands]
                after = [one.words for one in read(decision.input["command"]).commands]
                replaced = {("npm", "install"), ("npm", "i")}
                assert after == [("npm", "ci") if w in replaced else w for w in before], text
    assert rewritten > 1_000 // step


@pytest.mark.parametrize(
    "line",
    [
        "npm install \\\n; echo",
        "npm install <<X\nnpm install\nX",
        "npm install; 'unclosed",
        "function npm { :; }; npm install",
        "eval 'npm install'; npm install",
        "npm install | npm install",
        "{ npm install; }",
        "(npm install)",
        "if npm install; then npm i; fi",
        "npm install & npm i &",
        "npm install>log",
        "! npm install",
        "time npm install",
        "x=1 npm install",
        "npm install;npm install",
        "alias a=npm; npm install",
        "npm\tinstall",
        "npm install#x",
        "npm install #x",
    ],
)
def test_a_line_is_rewritten_only_into_what_was_decided(line: str) -> None:
    decision = Policy.preset("auto", rules=[CI]).decide(bash(line), HERE)
    if decision.verdict != "rewrite":
        assert decision.input is None
        return
    assert decision.input is not None
    new = read(decision.input["command"])
    assert [
        one.words for one in new.commands if one.words[:2] in (("npm", "i"), ("npm", "install"))
    ] == []
    assert new.redirections == read(line).redirections
    assert not new.unread


def test_a_rewrite_that_the_rest_of_the_line_takes_apart_is_a_denial() -> None:
    """Alone it is one command; inside the line it would be another."""
    for text in ("npm ci #", "npm ci '", "npm ci &&", "npm ci \\"):
        rule = rule_of({"rewrite": text, "command": "npm install"}, "rules.toml:1")
        decision = Policy.preset("auto", rules=[rule]).decide(bash("npm install && rm x"), HERE)
        assert (decision.verdict, decision.input) == ("deny", None), text


def test_two_command_lines_in_one_call_are_asked_about() -> None:
    asked = PermissionRequested(
        request_id="r", tool="Bash", title="", input={"command": "ls", "cmd": "rm -rf x"}
    )
    decision = Policy.preset("auto").decide(asked, HERE)
    assert (decision.verdict, decision.rule) == ("ask", "guard.unread")


def test_a_selector_is_hidden_but_behind_the_symbol_that_it_draws() -> None:
    assert hidden_characters("git commit -m '\u2764\ufe0f for \u2600\ufe0f'") == {}
    for text in ("ls\ufe0f", "\ufe0fls", "ls \ufe0f\ufe0e", "\u2764\ufe0f\ufe0f"):
        assert hidden_characters(text), text.encode("unicode_escape")
