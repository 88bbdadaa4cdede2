"""Properties of every policy and every command line, tested on many."""

from __future__ import annotations

import string
from pathlib import PurePosixPath
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tillerman.config.policy_rules import rule_of, rule_table
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import STRICTNESS, DecisionContext, Policy, Rule
from tillerman.core.permission.remembered_rule import rule_for
from tillerman.core.permission.shell.reader import FAULT, read, read_words
from tillerman.core.tools import TOOLS

HERE = DecisionContext(PurePosixPath("/ws"), home=PurePosixPath("/home/me"), agent="claude")
PRESETS = st.sampled_from(["ask", "edits", "auto", "readonly", "none"])
PATHS = st.sampled_from(["a.py", "src/a.py", "/etc/x", "../x", ".env", ".git/config", "~/x", ""])
COMMANDS = st.sampled_from([
    "ls", "rm x", "npm install", "git push", "ls; rm x", "echo $(rm x)", "$X y", "cat a > .env",
    "curl https://a.example.com", "cd src && make", "python -c x", "sudo rm x", "echo > /etc/x",
])  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> PermissionRequested:
    tool = draw(st.sampled_from([*TOOLS, "brand_new"]))
    input: dict[str, Any] = {}
    if tool == "Bash":
        input["command"] = draw(COMMANDS)
    elif path := draw(PATHS):
        input["file_path"] = path
    if tool == "WebFetch":
        input["url"] = draw(st.sampled_from(["https://a.example.com", "https://b.test", "\\"]))
    name = draw(st.sampled_from(["github.create", "x.y"]))
    return PermissionRequested(request_id="r", tool=tool, title=f"MCP `{name}`", input=input)


@st.composite
def rules(draw: st.DrawFn, verdicts: tuple[str, ...] = ("allow", "deny", "ask", "rewrite")) -> Rule:
    verdict = draw(st.sampled_from(verdicts))
    reported: Any = {"allow": True, "deny": "no", "ask": True, "rewrite": {"x": 1}}[verdict]
    table: dict[str, Any] = {"name": draw(st.sampled_from("abc")), verdict: reported}
    matchers: dict[str, list[str]] = {
        "command": ["rm *", "ls", "*", "git push *", "npm *", "cat *", "echo *", "sudo *"],
        "path": ["inside", "outside", "protected", "src/**", "*.py", "/etc/**"],
        "host": ["a.example.com", "*.example.com"],
        "mcp": ["github.*", "x.y"],
    }
    key = draw(st.sampled_from([None, *matchers]))
    if key:
        table[key] = draw(st.lists(st.sampled_from(matchers[key]), min_size=1, max_size=2))
    if draw(st.booleans()):
        table["tool"] = draw(st.sampled_from(["read", "write", "shell", "network", "mcp", "Bash"]))
    if draw(st.booleans()):
        table["mode"] = draw(st.sampled_from(["agent", "plan"]))
    if draw(st.booleans()):
        table["agent"] = draw(st.sampled_from(["claude", "codex"]))
    return rule_of(table, "rules.toml")


SOME = st.lists(rules(), max_size=4)
CONTEXTS = st.sampled_from([HERE, DecisionContext(HERE.cwd, mode="plan", agent="codex")])


def strictness(policy: Policy, request: PermissionRequested, context: DecisionContext) -> int:
    return STRICTNESS[policy.decide(request, context).verdict]


@settings(max_examples=50)
@given(PRESETS, SOME, rules(("deny",)), requests(), CONTEXTS, st.integers(0, 4))
def test_a_further_rule_that_denies_never_loosens(
    preset: str,
    some: list[Rule],
    deny: Rule,
    request: PermissionRequested,
    context: DecisionContext,
    at: int,
) -> None:
    before = Policy.preset(preset, rules=some)
    after = Policy.preset(preset, rules=[*some[:at], deny, *some[at:]])
    assert strictness(after, request, context) >= strictness(before, request, context)


@settings(max_examples=50)
@given(PRESETS, SOME, SOME, requests(), CONTEXTS)
def test_a_project_that_is_not_trusted_never_loosens(
    preset: str,
    some: list[Rule],
    theirs: list[Rule],
    request: PermissionRequested,
    context: DecisionContext,
) -> None:
    before = Policy.preset(preset, rules=some)
    after = Policy.preset(preset, rules=some, tightening=theirs)
    assert strictness(after, request, context) >= strictness(before, request, context)
    assert after.decide(request, context).input == before.decide(request, context).input or (
        after.decide(request, context).input is None
    )


@settings(max_examples=50)
@given(PRESETS, SOME, SOME, requests())
def test_nothing_but_reads_and_messages_passes_in_a_mode_that_changes_nothing(
    preset: str, some: list[Rule], remembered: list[Rule], request: PermissionRequested
) -> None:
    policy = Policy.preset(preset, rules=some).remembering(remembered)
    verdict = policy.decide(request, DecisionContext(HERE.cwd, mode="plan", agent="claude")).verdict
    free = {"Read", "LS", "Glob", "Grep", "SemSearch", "TodoWrite", "Task", "Question"}
    if request.tool not in free and request.input.get("command") != "ls":
        assert verdict in ("deny", "ask")
        assert verdict == "deny" or request.tool == "ExitPlanMode"


@settings(max_examples=50)
@given(PRESETS, SOME, SOME, requests(), CONTEXTS)
def test_explain_reports_what_is_decided(
    preset: str,
    some: list[Rule],
    theirs: list[Rule],
    request: PermissionRequested,
    context: DecisionContext,
) -> None:
    policy = Policy.preset(preset, rules=some, tightening=theirs)
    assert policy.explain(request, context).decision == policy.decide(request, context)


@given(rules())
def test_a_rule_is_written_as_it_was_read(rule: Rule) -> None:
    assert rule_of(rule_table(rule), rule.source) == rule


@given(requests())
def test_what_was_answered_with_always_is_read_back_and_matches_what_was_asked(
    request: PermissionRequested,
) -> None:
    rule = rule_for(request)
    if rule is None:
        return
    assert rule_of(rule_table(rule), rule.source) == rule
    decided = Policy((rule,)).decide(request, HERE)
    # a line that writes outside, or nobody knows where, is asked about each time
    assert decided.verdict == "allow" or rule.line is not None


# -- any spelling ----------------------------------------------------------------------------------

DENYING = Policy.preset("auto", rules=[Rule("no-rm", "deny", "no", commands=("rm *",))])
ALLOWING = Policy.preset("ask", rules=[Rule("ls", "allow", "", commands=("ls *",))])


@st.composite
def spelled(draw: st.DrawFn, name: str) -> str:
    """The name of a program in any mix of quotes and escapes that a shell expands to it."""
    message = ""
    for c in name:
        message += draw(st.sampled_from([
            c, f"'{c}'", f'"{c}"', f"\\{c}", f"$'{c}'", f"$'\\x{ord(c):02x}'", f"$'\\{ord(c):03o}'",
            f"''{c}", f'""{c}', f"\\\n{c}", f"{c}''", f'{c}""',
        ]))  # fmt: skip
    return draw(st.sampled_from(["", "/bin/", "/usr/bin/", "./", "'/bin/'"])) + message


BEFORE = ("env ", "nohup ", "timeout 5 ", "command ", "nice -n 3 ", "exec ", "busybox ", "")
AROUND = (
    "ls; {}", "ls && {}", "ls | {}", "( {} )", "{{ {}; }}", "if {}; then ls; fi", "echo $( {} )",
    'echo "$( {} )"', "x=$( {} )", "ls\n{}", "! {}", "time {}", "for i in 1; do {}; done",
    "{} & ls", "case x in x) {};; esac", "f() {{ {}; }}", "cat <( {} )", "  {}", "{}",
    "while {}; do ls; done",
)  # fmt: skip


@st.composite
def wrapped(draw: st.DrawFn, name: str) -> str:
    line = draw(spelled(name)) + " x"
    for word in draw(st.lists(st.sampled_from(BEFORE), max_size=3)):
        line = word + line
    line = draw(st.sampled_from(["", "A=1 ", "A=1 B='x y' "])) + line
    for form in draw(st.lists(st.sampled_from(AROUND), max_size=4)):
        if form == "ls | {}" and line.lstrip().startswith(("time ", "! ")):
            line = f"{{ {line}; }}"  # behind a pipe they are no words of the shell
        line = form.format(line)
    return line


@settings(max_examples=120)
@given(wrapped("rm"))
def test_a_denied_program_is_denied_however_it_is_spelled_and_wrapped(line: str) -> None:
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    assert DENYING.decide(request, HERE).verdict == "deny"


@given(wrapped("touch"))
def test_what_no_rule_allows_is_asked_however_it_is_spelled_and_wrapped(line: str) -> None:
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    assert ALLOWING.decide(request, HERE).verdict == "ask"


PIECES = st.sampled_from([
    *"(){}[]$`'\"\\ ;|&<>\n#*a=!~?,+@:-%/0",
    "$(", "${", "$((", "))", "<<E\n", "\nE\n", "<(", "[[ ", " ]]", "if ", "then ", "fi",
    "for i in ", "do ", "done", "case x in ", "esac", "f() ", "function ", "eval ", "declare ",
    "trap ", "alias ", "local ", "cd ", "x=", "a[", "sh -c ", "$'", "coproc ", "time ", "exec ",
    ". ", "read ",
])  # fmt: skip


def is_sound(line: str) -> bool:
    return not any(FAULT in reason for reason in read(line).unread)


def test_a_variable_that_is_assigned_twice_before_a_command_is_read() -> None:
    found = read("x=1 x=2 ls")
    assert ([one.words for one in found.commands], found.unread) == ([("ls",)], ())


@settings(max_examples=200)
@given(st.text(st.sampled_from(string.printable + "\u200b\0é"), max_size=60))
def test_any_text_is_parsed_without_an_error(line: str) -> None:
    assert is_sound(line)


@given(st.text(max_size=40))
def test_any_characters_are_parsed_without_an_error(line: str) -> None:
    assert is_sound(line)


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_signs_in_any_order_are_parsed_without_an_error(line: str) -> None:
    assert is_sound(line)


@given(st.lists(st.text(max_size=10), max_size=5))
def test_any_words_are_parsed_without_an_error(words: list[str]) -> None:
    assert not any(FAULT in reason for reason in read_words(words).unread)


ODD = [
    "\u200b",
    "\u202e",
    "\r",
    "\0",
    "\x1b",
    "\ud800",
    "\u2028",
    "\xa0",
    "\ue000",
    "\x07",
    "\u00ad",
]


@given(st.text(st.sampled_from("ls -a;x"), max_size=9), st.sampled_from(ODD), st.integers(0, 9))
def test_a_character_that_cannot_be_seen_is_named_and_nothing_is_rewritten(
    line: str, odd: str, at: int
) -> None:
    script = read(line[:at] + odd + line[at:])
    assert f"{odd!a}" in " ".join(script.unread)
    assert all(command.span is None for command in script.commands)


@given(wrapped("npm"))
def test_a_command_stands_where_its_span_says(line: str) -> None:
    for command in read(line).commands:
        if command.span is not None and command.words[0] in ("ls", "npm", "echo"):
            start, end = command.span
            alone = read(line[start:end]).commands
            assert [one.words for one in alone if one.span] == [command.words]
