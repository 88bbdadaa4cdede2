"""What the reader reports of a command line, compared with shells that run it.

The only programs on the path are a few wrappers and a `rm` that creates a marker. A line that
creates the marker must not be allowed by a policy that denies `rm`, nor by one that allows all but
it.
"""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.core.permission.shell_stage import ALLOWING, DENYING, Stage, verdict
from tillerman.config.policy_test_cases import read_cases

CORPUS = Path(__file__).with_name("corpus.toml")
SHELLS = [shell for shell in ("bash", "dash") if shutil.which(shell)]

PIECES = (
    *("rm", "rm", "rm x", "r", "m", "x", " ", " ", "\n", ";", ";;", "&", "&&", "|", "||", "|&"),
    *("'", "''", '"', "\\", "\\\n", "$(", ")", "(", "`", "{ ", "}", " }", "{", ",", "#", "!", "*"),
    *("$'", "\\x72", "\\162", "${IFS}", "$IFS", "${y:-", "$y", "$((", "))", "((", "<(", ">(", ">"),
    *(
        " <<E\n",
        "\nE\n",
        " <<'E'\n",
        "<<<",
        "2>&1",
        "&>",
        "[[ ",
        " ]]",
        "[ ",
        " ]",
        "=",
        "y=",
        "y=rm;",
    ),
    *(
        "if ",
        "then ",
        "else ",
        "fi",
        "while ",
        "do ",
        "done",
        "for y in ",
        "case x in ",
        "x) ",
        "esac",
    ),
    *(
        "echo ",
        "cat ",
        "eval ",
        "sh -c ",
        "bash -c ",
        "env ",
        "xargs ",
        "command ",
        "exec ",
        "time ",
    ),
    *("f() ", "function f ", "coproc ", "trap ", " EXIT", "alias x=rm\n", ": ", "true ", "export "),
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("stage"))


@pytest.mark.parametrize("shell", SHELLS)
def test_no_line_that_the_corpus_allows_runs_what_is_denied(shell: str, stage: Stage) -> None:
    denied = read_cases(CORPUS)[0]
    lines = [str(case.input["command"]) for case in denied.cases if case.expect == "allow"]
    assert [line for line in lines if stage.runs_rm(shell, line)] == []


def test_many_lines_that_the_corpus_denies_do_run_it(stage: Stage) -> None:
    """Otherwise the test above could not fail."""
    denied = read_cases(CORPUS)[0]
    lines = [str(case.input["command"]) for case in denied.cases if case.expect == "deny"]
    ran = (line for line in lines if "\0" not in line and stage.runs_rm("bash", line))
    assert len(list(islice(ran, 91))) > 90


FORMS = (
    *(
        "{}",
        "echo {}",
        'echo "{}"',
        "echo ${{y:-{}}}",
        "echo $(({}))",
        "(({}))",
        "[[ {} ]]",
        "eval {}",
    ),
    *("cat <<E\n{}\nE\n{}", "cat <<'E'\n{}\nE\n{}", "sh <<E\n{}\nE\n", "echo {} | sh {}"),
    *(
        "sh -c {}",
        "env {} {}",
        "xargs -I{} {} <<< x",
        "exec {} {}",
        "command {} {}",
        "x={} echo {}",
    ),
    *(
        "echo x #{}\n{}",
        "case {} in {}) {};; esac",
        "for i in {}; do {}; done",
        "f() {{ {}; }}; {}",
    ),
    *(
        "{{ {}; }} {}",
        "( {} ) {}",
        "{} | {}",
        "{} && {}",
        "if {}; then {}; fi",
        "let {}",
        "test {}",
    ),
)
SOME = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@st.composite
def lines(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return "".join(draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=14)))
    form = draw(st.sampled_from(FORMS))
    return form.format(*(draw(SOME) for _ in range(form.count("{}"))))


@pytest.mark.parametrize("shell", SHELLS)
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(line=lines())
@example(line="\"${y:-'}$(rm x)'}\"")
@example(line="y=rm;$y x")
@example(line="echo $((rm x);echo)")
@example(line="((rm x))")
@example(line="echo echo | sh <<< 'rm x'")
@example(line="echo a${IFS}#;rm x")
def test_whatever_runs_what_is_denied_is_not_allowed(shell: str, line: str, stage: Stage) -> None:
    if "\0" not in line and stage.runs_rm(shell, line):
        assert verdict(DENYING, line) != "allow"
        assert verdict(ALLOWING, line) != "allow"
