"""What the parser accepts as a command, compared with `bash -n` and `dash -n`."""

from __future__ import annotations

import os
import random
import shutil
import subprocess

import pytest

from tillerman.core.permission.shell.builtins import BUILTINS
from tillerman.core.permission.shell.parsing.parser import ShellParser
from tillerman.core.permission.shell.parsing.syntax import (
    Dialect,
    Literal,
    Parameter,
    SimpleCommand,
    UnparsableCommand,
    Word,
)
from tillerman.core.permission.shell.reader import read

SHELLS: dict[str, Dialect] = {"bash": "bash", "dash": "posix"}
ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
LINES = int(os.environ.get("TILLERMAN_PARSER_LINES", "400"))

WORDS = (
    "a", "b", "x=1", "x=", "'q r'", '"q $x"', "\\;", "$x", "${x:-d}", "${x%.c}", "${#x}", "$(a)",
    "`a`", "$((1 + 2))", "$'s\\'t'", "a*b", "[ab]", "{a,b}", "~/x", '"$(a "b")"', "${x:-'}'}",
    '"${x:-a}"', "a\\\nb", "2", "#c", "a#b", "!", "-n", "=", "''", '""', "$", "a=(1)", "x+=1",
    "if", "done", "}", "{", "in", "do", "<(a)", "$[1]", "${x/a/b}", "${!x}", "@(a|b)", "[[", "]]",
    "time", "function", "a[1]=2",
)  # fmt: skip
FORMS = (
    "{c}", "{c}", "{c} ; {c}", "{c} && {c}", "{c} || {c}", "{c} | {c}", "{c} |& {c}", "{c} &",
    "{c} & {c}", "( {c} )", "{{ {c}; }}", "! {c}", "if {c}; then {c}; fi",
    "if {c}; then {c}; else {c}; fi", "if {c}\nthen {c}\nelif {c}\nthen {c}\nfi",
    "while {c}; do {c}; done", "until {c}; do {c}; done", "for i in {w} {w}; do {c}; done",
    "for i; do {c}; done", "for i do {c}; done", "for ((i=0;i<1;i++)); do {c}; done",
    "select i in {w}; do {c}; done", "case {w} in {w}) {c};; esac",
    "case {w} in ({w}|{w}) {c};; *) {c};; esac", "case {w} in {w}) {c};& *) {c};;& esac",
    "f() {{ {c}; }}", "f() ( {c} )", "function f {{ {c}; }}", "function f() {{ {c}; }}",
    "f() {c}", "[[ {w} == {w} ]]", "[[ -f {w} && {w} =~ a(b|c) ]]", "(( 1 + 2 ))", "((a);(b))",
    "coproc {c}", "coproc N {{ {c}; }}", "time {c}", "cat <<E\nx $(a)\nE",
    "cat <<'E' | {c}\nx\nE\n{c}", "cat <<-E\n\tx\n\tE", "{c} # {c}", "{c}\n\n{c}", "$( {c} )",
    "`a`", "{c} > {w}", "{c} 2>&1", "{c} &> f", "{c} < f >> g", "{c} <<< {w}", "{{ {c}; }} > f",
    "( {c} ) | {c}", "x={w} {c}", "declare -a a=(1 2)", "export a=({w})", "a=({w} {w})",
    "{c} ;; {c}", "{c} )", "fi", "then {c}", "{c};;", "& {c}", "| {c}", "( )", "{{ }}", "{c} &&",
    "$(", "if {c}; fi", "for; do", "{c} <", "{c} >&-", "{c} {{x}}> f", "{{ {c}; }} {w}",
    "( {c} ) {w}", "{c} &; {c}",
)  # fmt: skip


def line(seed: int) -> str:
    chance = random.Random(seed)

    def command(depth: int) -> str:
        if depth and chance.random() < 0.45:
            return form(depth - 1)
        return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 4)))

    def form(depth: int) -> str:
        text = chance.choice(FORMS)
        found = []
        for piece in text.replace("{{", "\1").replace("}}", "\2").split("{"):
            kind, brace, rest = piece.partition("}")
            if brace and kind in ("c", "w"):
                found.append(command(depth) if kind == "c" else chance.choice(WORDS))
                found.append(rest)
            else:
                found.append(piece)
        return "".join(found).replace("\1", "{").replace("\2", "}")

    return form(2)


def accepts(shell: str, text: str) -> bool:
    ran = subprocess.run(
        [shell, "-n", "-c", f": ;{text}" if text.startswith("-") else text],
        capture_output=True, env=ENVIRONMENT, timeout=20,
    )  # fmt: skip
    return ran.returncode == 0 and not ran.stderr  # bash goes on after an error in a condition


def parses(text: str, dialect: Dialect) -> bool:
    parser = ShellParser(text, dialect)
    try:
        while parser.next_command() is not None:
            pass
    except UnparsableCommand:
        return False
    return not parser.problems


@pytest.mark.parametrize("shell", [name for name in SHELLS if shutil.which(name)])
def test_lines_are_accepted_as_the_shell_accepts_them(shell: str) -> None:
    """A line that the shell refuses may be read; one that it accepts must be, or count as
    unread."""
    assert misread(shell, range(LINES)) == []


def misread(shell: str, seeds: range) -> list[str]:
    found = []
    for text in map(line, seeds):
        if not parses(text, SHELLS[shell]) and accepts(shell, text):
            known = shell == "bash" and bool(read(text).unread)
            found += [] if known else [text]
    return found


@pytest.mark.parametrize("shell", [name for name in SHELLS if shutil.which(name)])
def test_few_lines_are_read_that_the_shell_refuses(shell: str) -> None:
    texts = [text for text in map(line, range(LINES)) if parses(text, SHELLS[shell])]
    assert sum(not accepts(shell, text) for text in texts) <= LINES // 10


@pytest.mark.parametrize("shell", [name for name in SHELLS if shutil.which(name)])
def test_the_generated_lines_are_both_commands_and_errors(shell: str) -> None:
    accepted = [accepts(shell, line(seed)) for seed in range(60)]
    assert 10 < sum(accepted) < 55


def words_of(text: str, dialect: Dialect = "bash") -> tuple[Word, ...]:
    script = ShellParser(text, dialect).next_command()
    assert script is not None
    command = script.commands[0]
    assert isinstance(command, SimpleCommand)
    return command.words


def test_a_command_has_its_position() -> None:
    text = "  A=1 npm  'in'\"stall\" >x ; ls"
    script = ShellParser(text, "bash").next_command()
    assert script is not None
    spans = [text[one.start : one.end] for one in script.commands]
    assert spans == ["npm  'in'\"stall\"", "ls"]


def test_quotes_and_expansions_are_parts_of_a_word() -> None:
    (word,) = words_of("a'b'\"c$d\"\\e")
    assert word.parts == (
        Literal("a"),
        Literal("b", quoted=True),
        Literal("c", quoted=True),
        Parameter("d", quoted=True),
        Literal("e", quoted=True),
    )


def test_ansi_quotes_are_quotes_of_bash_alone() -> None:
    assert [word.plain for word in words_of("echo $'a'")] == ["echo", None]
    assert words_of("$'\\x41'")[0].parts == (Literal("A", quoted=True),)
    assert words_of("$'\\x41'", "posix")[0].parts == (
        Literal("$", quoted=True),
        Literal("\\x41", quoted=True),
    )


def test_an_error_in_a_line_leaves_the_lines_before_it() -> None:
    parser = ShellParser("rm x\nfi", "bash")
    assert parser.next_command() is not None
    with pytest.raises(UnparsableCommand):
        parser.next_command()


def dash_says(name: str) -> str:
    ran = subprocess.run(
        ["dash", "-c", f"type {name}"], capture_output=True, text=True, env=ENVIRONMENT
    )
    return ran.stdout.strip()


def _names(dialect: Dialect) -> set[str]:
    return {name for name, (_, dialects) in BUILTINS.items() if dialect in dialects}


def test_all_builtins_are_known() -> None:
    bash = subprocess.run(
        ["bash", "-c", "compgen -b"], capture_output=True, text=True, env=ENVIRONMENT
    ).stdout.split()
    assert set(bash) - _names("bash") == set()
    if shutil.which("dash"):
        found = [name for name in sorted(BUILTINS) if dash_says(name).endswith("shell builtin")]
        assert set(found) - {"fc"} == _names("posix")


@pytest.mark.torture
@pytest.mark.parametrize("shell", [name for name in SHELLS if shutil.which(name)])
def test_many_lines_are_accepted_as_the_shell_accepts_them(shell: str) -> None:
    assert misread(shell, range(10_000, 40_000)) == []
