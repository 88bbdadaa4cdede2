"""New lines from known ones: spliced, requoted, wrapped, cut and shuffled."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from random import Random

from tests.core.permission.differential import contexts
from tests.core.permission.differential.spelling import Speller

_HERE = Path(__file__).parent
_TOKENS = re.compile(r"\s+|[A-Za-z0-9_./-]+|\$\(|\$\{|\$'|&&|\|\||;;|<<<|<<|>>|&>|.", re.DOTALL)
_JOINS = ("; ", " && ", " || ", " | ", "\n", " & ", " |& ", " ;")
_PIECES = (
    *("rm a.txt", "curl x", "git push", "> .env", "> ../z", "cat .env", "touch ../z", "cd src", "cd out", "npm test"),
    *("'", '"', "\\", "\\\n", "$(", ")", "(", "`", "{ ", "; }", "{", "}", ",", "#", " # ", "!", "*", "?", "[", "]", "~"),
    *("$'", "\\x72", "\\x{72}", "\\162", "\\u0072", "${IFS}", "$IFS", "${y:-", "$y", "$((", "))", "((", "<(", ">(", ">"),
    *(" <<E\n", "\nE\n", " <<'E'\n", " <<-E\n", "<<<", "2>&1", "&>", "[[ ", " ]]", "[ ", " ]", "=", "y=", "y=rm;", "a=("),
    *("if ", "; then ", "; else ", "; fi", "while ", "; do ", "; done", "for y in ", "case x in ", "x) ", " ;; ", "; esac"),
    *("echo ", "eval ", "sh -c ", "bash -c ", "env ", "xargs ", "command ", "exec ", "time ", "sudo ", "coproc ", "builtin "),
    *("f() ", "function f ", "trap ", " EXIT", "alias x=rm\n", ": ", "true ", "false ", "export ", "declare ", "local ", "! "),
    *("\t", "\r", "\v", "\f", "\u00a0", "\u200b", "\u202e", "\u2003", "\u0001", "\ufeff", "é", "\udc80", "${ ", "${| "),
    *(" 3>", "{x}>", "<>", ">&", ">|", "<&", "-", "--", "/", "//", "..", "$@", "$*", "$#", "$$", "$!", "$0", "$1", "$_", "$-"),
)  # fmt: skip


@cache
def corpus() -> tuple[str, ...]:
    """Lines written by people: those of the policy's own tests, and everyday ones."""
    groups = tomllib.loads(_HERE.with_name("corpus.toml").read_text())["groups"]
    lines = [case["command"] for group in groups for case in group["cases"] if "command" in case]
    known = tomllib.loads((_HERE / "lines.toml").read_text())
    lines += [*(line for cause in known["misses"] for line in cause["lines"]), *known["everyday"]]
    return tuple(line for line in lines if "\0" not in line and len(line) < 300)


def mutated(rng: Random) -> str:
    line = rng.choice(corpus())
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        line = rng.choice(_WAYS)(rng, line)
    return line


def soup(rng: Random) -> str:
    """Pieces of shell in any order: shells refuse most of it, and some is not what it seems."""
    return "".join(rng.choice(_PIECES) for _ in range(rng.randrange(2, 9)))


def _spliced(rng: Random, line: str) -> str:
    other = rng.choice(corpus())
    return (
        line + rng.choice(_JOINS) + other
        if rng.random() < 0.7
        else other + rng.choice(_JOINS) + line
    )


def _requoted(rng: Random, line: str) -> str:
    tokens = _TOKENS.findall(line)
    plain = [at for at, token in enumerate(tokens) if len(token) > 1 and token[0].isalnum()]
    if plain:
        at = rng.choice(plain)
        speller = Speller(rng, 1.0)
        tokens[at] = speller.word(tokens[at])
        return "".join(f"{one.rstrip()}; " for one in speller.before) + "".join(tokens)
    return line


def _wrapped(rng: Random, line: str) -> str:
    return contexts.around(rng, line, Speller(rng, 0.2))


def _inserted(rng: Random, line: str) -> str:
    at = rng.randrange(len(line) + 1)
    return line[:at] + rng.choice(_PIECES) + line[at:]


def _cut(rng: Random, line: str) -> str:
    tokens = _TOKENS.findall(line)
    if len(tokens) > 1:
        del tokens[rng.randrange(len(tokens))]
    return "".join(tokens)


def _swapped(rng: Random, line: str) -> str:
    tokens, others = _TOKENS.findall(line), _TOKENS.findall(rng.choice(corpus()))
    if tokens and others:
        tokens[rng.randrange(len(tokens))] = rng.choice(others)
    return "".join(tokens)


def _doubled(rng: Random, line: str) -> str:
    tokens = _TOKENS.findall(line)
    at = rng.randrange(len(tokens) + 1)
    return "".join([*tokens[:at], *tokens[max(0, at - 2) : at], *tokens[at:]])


_WAYS = (_spliced, _requoted, _wrapped, _wrapped, _inserted, _inserted, _cut, _swapped, _doubled)
