"""Values in commands: in bash and dash, no text of an agent ever becomes syntax of the shell."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tillerman.pipelines import shell_values, templates
from tillerman.pipelines.templates import TemplateError

SHELLS = [name for name in ("bash", "dash") if shutil.which(name)]
CANARY = "touch pwned"
HOSTILE = (
    f"$({CANARY})",
    f"`{CANARY}`",
    f"'; {CANARY}; '",
    f'"; {CANARY}; "',
    f'"$({CANARY})"',
    f"\n{CANARY}\n",
    f"\nE\n{CANARY}\n",
    f"; {CANARY} #",
    f") {CANARY}; (",
    f"a[$({CANARY})]",
    f"'\"'\"'$({CANARY})",
    f"\\'; {CANARY}; \\'",
    f"}}; {CANARY}; {{",
    f"| {CANARY} &",
    f"*/; {CANARY}",
    f"x=$({CANARY})",
    CANARY,
)
Context = Callable[[str], str]
# each puts a text into a place of a command; those below nest in each other
CONTEXTS: dict[str, Context] = {
    "argument": lambda text: f"echo {text}",
    "sequence": lambda text: f"true; {text}",
    "lines": lambda text: f"true\n{text}\n",
    "and": lambda text: f"true && {text}",
    "pipe": lambda text: f"{text} | cat",
    "assignment": lambda text: f"x={text}",
    "assigned and used": lambda text: f'x={text}\necho "$x"',
    "subshell": lambda text: f"( {text} )",
    "group": lambda text: f"{{ {text}; }}",
    "substitution": lambda text: f"echo $({text})",
    "double quotes": lambda text: f'echo "{text}"',
    "single quotes": lambda text: f"echo '{text}'",
    "substitution in double quotes": lambda text: f'echo "$({text})"',
    "quotes in a substitution in quotes": lambda text: f'echo "$(echo "{text}")"',
    "backquotes": lambda text: f"echo `{text}`",
    "ANSI quotes": lambda text: f"echo $'a\\'b'; {text}",
    "in ANSI quotes": lambda text: f"echo ${text}",
    "a dollar sign": lambda text: f"echo \\${text}",
    "default": lambda text: f"echo ${{y:-{text}}}",
    "after a default with a quote": lambda text: f"echo ${{y:- # '}}\n{text}",
    "plain expansions": lambda text: f"echo ${{HOME}} $HOME $# {text}",
    "arithmetic": lambda text: f"echo $(( {text} ))",
    "old arithmetic": lambda text: f"echo $[ {text} ]",
    "arithmetic command": lambda text: f"(( {text} ))",
    "condition": lambda text: f"[[ {text} -eq 1 ]]",
    "test": lambda text: f"[ {text} = a ]",
    "test of a variable": lambda text: f"test -v {text}",
    "subscript": lambda text: f"a[{text}]=1",
    "if": lambda text: f"if true; then {text}; fi",
    "condition of if": lambda text: f"if {text}; then true; fi",
    "for": lambda text: f"for i in a {text}; do echo $i; done",
    "body": lambda text: f"for i in a; do {text}; done",
    "case": lambda text: f"case {text} in a) true;; esac",
    "pattern": lambda text: f"case a in {text}) true;; esac",
    "branch": lambda text: f"case a in a) {text};; esac",
    "branch in a substitution": lambda text: f'echo "$(case a in a) echo "{text}";; esac)"',
    "here document": lambda text: f"cat <<E\n{text}\nE\n",
    "quoted here document": lambda text: f"cat <<'E'\n{text}\nE\n",
    "after a here document": lambda text: f"cat <<E\n'\nE\n{text}",
    "here string": lambda text: f"cat <<< {text}",
    "comment": lambda text: f"true # {text}\ntrue",
    "after a comment": lambda text: f"true # it's\n{text}",
    "no comment": lambda text: f"echo a#'b {text}'",
    "after a value": lambda text: f"echo {{{{ v.x }}}}#'b {text}'",
    "continued": lambda text: f"echo a\\\n#'b {text}'",
    "escaped quote": lambda text: f'echo "a\\"b" \\" {text}',
    "function": lambda text: f"f() {{ {text}; }}; f",
    "eval": lambda text: f"eval {text}",
    "eval of an assignment": lambda text: f"eval x={text}",
    "quoted eval": lambda text: f'"eval" {text}',
    "shell": lambda text: f"sh -c {text}",
    "shell with options": lambda text: f"/bin/bash -ec {text}",
    "argument of a script": lambda text: f"sh -c 'echo \"$1\"' -- {text}",
    "integer": lambda text: f"declare -i n; n={text}",
    "declaration": lambda text: f"declare {text}",
    "export": lambda text: f"export X={text}",
    "bare export": lambda text: f"export {text}",
    "let": lambda text: f"let {text}",
    "trap": lambda text: f"trap {text} EXIT",
    "alias": lambda text: f"alias x={text}\nx",
    "source": lambda text: f". {text}",
    "printf -v": lambda text: f"printf -v {text} x",
    "read": lambda text: f"echo 1 | read {text}",
    "unset": lambda text: f"unset {text}",
    "redirection": lambda text: f"echo > /dev/null {text}",
    "redirected command": lambda text: f">/dev/null {text}",
    "assigned command": lambda text: f"X=1 {text}",
    "wrapper": lambda text: f"command {text}",
}
SHOWN = (  # the canary runs there if a value is not refused, so that the tests can fail
    "double quotes", "single quotes", "arithmetic", "old arithmetic", "arithmetic command",
    "condition", "test of a variable", "subscript", "here document", "quoted here document",
    "comment", "no comment", "after a value", "continued", "quotes in a substitution in quotes",
    "branch in a substitution", "eval", "eval of an assignment", "quoted eval", "shell",
    "shell with options", "integer", "let", "trap", "alias", "printf -v",
)  # fmt: skip


def checked(command: str) -> bool:
    try:
        shell_values.check(templates.parse(command))
    except TemplateError:
        return False
    return True


def run(shell: str, command: str, value: str | tuple[str, ...], folder: Path) -> tuple[bool, str]:
    """Whether the canary was run, and the output."""
    rendered = templates.render_command(command, {"v.x": value})
    done = subprocess.run(
        [shell, "-c", rendered],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )
    pwned = folder / "pwned"
    found = pwned.exists()
    pwned.unlink(missing_ok=True)
    return found, done.stdout.decode("utf-8", "surrogateescape")


def nested(names: list[str]) -> str:
    text = "{{ v.x }}"
    for name in names:
        text = CONTEXTS[name](text)
    return text


@pytest.mark.parametrize("shell", SHELLS)
@given(names=st.lists(st.sampled_from(sorted(CONTEXTS)), min_size=1, max_size=4), data=st.data())
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_hostile_text_is_run_where_a_value_may_stand(
    shell: str, names: list[str], data: st.DataObject, tmp_path: Path
) -> None:
    command = nested(names)
    if checked(command):
        value = data.draw(st.sampled_from(HOSTILE))
        assert not run(shell, command, value, tmp_path)[0], (command, value)
        assert not run(shell, command, (value, value), tmp_path)[0], (command, value)


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_a_place_is_refused_or_safe_for_every_hostile_text(name: str, tmp_path: Path) -> None:
    command = nested([name])
    ran = {
        shell: [value for value in HOSTILE if run(shell, command, value, tmp_path)[0]]
        for shell in SHELLS
    }
    if checked(command):
        assert not any(ran.values())
    if name in SHOWN:
        assert any(ran.values())


@pytest.mark.parametrize(
    "command",
    [
        "echo {{ v.x }}",
        "grep -n -- {{ v.x }} notes.txt | head -3 > {{ v.x }}.txt",
        'value={{ v.x }}; echo "$value" "${value}"',
        'for file in {{ v.x }}; do wc -l "$file"; done',
        "export TASK={{ v.x }} && make test",
        "cd src && python -m pytest {{ v.x }} 2>&1",
        "sh -c 'echo \"$1\"' -- {{ v.x }}",
        "# a comment\nmake {{ v.x }} # it's done",
        'git commit -m {{ v.x }} --author="A <a@example.org>"',
        "docker ps --format '\\{{.Names}}' --filter {{ v.x }}",
        "if grep -q {{ v.x }} notes.txt; then echo yes; fi",
    ],
)
def test_what_people_write_is_allowed(command: str) -> None:
    assert checked(command)


@pytest.mark.parametrize("shell", SHELLS)
@given(text=st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_program_gets_the_value_as_it_is(shell: str, text: str, tmp_path: Path) -> None:
    for command in ("printf '%s.' {{ v.x }}", "value={{ v.x }}; printf '%s.' \"$value\""):
        rendered = templates.render_command(command, {"v.x": text})
        done = subprocess.run([shell, "-c", rendered], cwd=tmp_path, capture_output=True)
        assert done.stdout == f"{text}.".encode()


@pytest.mark.parametrize("shell", SHELLS)
@given(
    entries=st.lists(
        st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8), max_size=4
    )
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_list_is_a_word_for_each_entry_unless_text_touches_it(
    shell: str, entries: list[str], tmp_path: Path
) -> None:
    def out(command: str) -> str:
        rendered = templates.render_command(command, {"v.x": tuple(entries)})
        done = subprocess.run([shell, "-c", rendered], cwd=tmp_path, capture_output=True)
        return done.stdout.decode()

    count = out('set -- {{ v.x }}; printf "%s" "$#"; printf " %s" "$@"')
    assert count == f"{len(entries)} " + " ".join(entries)
    assert out('files={{ v.x }}; printf %s "$files"') == "\n".join(entries)
