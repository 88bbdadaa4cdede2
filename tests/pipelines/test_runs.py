"""What runs do: order, results, commits, gates, groups of steps, and what they leave."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.pipelines.run_desk import APPROVE, Desk, until_step
from tillerman.core.errors import UsageError
from tillerman.pipelines.definition import read_definition
from tillerman.pipelines.engine import Engine
from tillerman.pipelines.run_request import again
from tillerman.pipelines.run_state import Answer, Run, RunSpec
from tillerman.pipelines.steps import (
    AgentJudge,
    AgentStep,
    BestOfStep,
    CommandJudge,
    CommandStep,
    GitEnd,
    Input,
    Limits,
    LoopStep,
    MapStep,
    ParallelStep,
    PersonJudge,
    Pipeline,
    PipelineStep,
    ReviewStep,
)


async def finished(engine: Engine, spec: RunSpec, run: str = "run") -> Run:
    await engine.start(run, spec)
    return await asyncio.wait_for(engine.wait(run), 60)


async def answered(engine: Engine, path: str, answer: Answer, run: str = "run") -> Run:
    await until_step(engine.store, run, path, "waiting")
    assert await engine.answer(run, path, answer)
    return await asyncio.wait_for(engine.wait(run), 60)


def statuses(engine: Engine, run: str = "run") -> dict[str, str]:
    return {row.path: row.status for row in engine.store.steps(run)}


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
async def test_steps_of_any_graph_start_after_all_that_they_need(
    desk: Desk, engine: Engine, seed: int
) -> None:
    chance = random.Random(seed)
    needs: dict[str, tuple[str, ...]] = {}
    for number in range(7):
        most = min(number, 3)
        needs[f"s{number}"] = tuple(chance.sample(sorted(needs), chance.randint(0, most)))
    steps = [
        CommandStep(
            id=id,
            command=f"note {id}; sleep 0.0{chance.randint(0, 9)}; note end-{id}",
            needs=wanted,
        )
        for id, wanted in needs.items()
    ]
    chance.shuffle(steps)
    ended = await finished(engine, desk.spec(*steps, git=None))
    assert ended.status == "completed"
    noted = desk.started()
    assert sorted(noted) == sorted([*needs, *(f"end-{id}" for id in needs)])
    for id, wanted in needs.items():
        for one in wanted:
            assert noted.index(f"end-{one}") < noted.index(id)


async def test_a_step_sees_results_and_files_of_those_before(desk: Desk, engine: Engine) -> None:
    prompt = json.dumps([{"write": "a.txt", "text": "one\n"}, {"say": "It's $HOME; done"}])
    ended = await finished(
        engine,
        desk.spec(
            AgentStep(id="write", agents=("mock",), prompt=prompt, approve="auto"),
            CommandStep(
                id="read",
                needs=("write",),
                command="cat {{ steps.write.files }}; echo {{ steps.write.text }} {{ run.id }} "
                "{{ inputs.word }}; echo {{ steps.write.diff }} | grep -c one",
            ),
            inputs={"word": "a b"},
        ),
    )
    assert ended.status == "completed", engine.store.steps("run")
    result = engine.store.result("run", "read")
    assert result
    assert result.text == "one\nIt's $HOME; done run a b\n1"
    assert engine.store.result("run", "write").files == ("a.txt",)  # type: ignore[union-attr]


async def test_each_step_ends_in_a_commit_on_its_branch(desk: Desk, engine: Engine) -> None:
    spec = desk.spec(desk.command("one"), desk.agent("two", needs=("one",)))
    assert (await finished(engine, spec)).status == "completed"
    for step, files in {"one": ["one.txt"], "two": ["two.txt"]}.items():
        branch = f"tillerman/run/{step}"
        assert desk.git("diff", "--name-only", f"{branch}^", branch).split() == files
        trailers = desk.git("show", "-s", "--format=%(trailers:key=Tillerman-Step)", branch)
        assert trailers == f"Tillerman-Step: {step}"
    assert desk.git("log", "--format=%s", "main").splitlines() == ["Run test", "Begin"]
    assert desk.git("status", "--porcelain") == ""
    assert (desk.project / "two.txt").read_text() == "two\n"
    await desk.nothing_left()


async def test_without_git_nothing_of_the_project_changes(desk: Desk, engine: Engine) -> None:
    before = desk.git("rev-parse", "main")
    ended = await finished(engine, desk.spec(desk.command("one"), git=None))
    assert desk.git("rev-parse", "main") == before
    assert desk.git("show", f"tillerman/run/RESULT:{'one.txt'}") == "one"
    assert ended.commit == desk.git("rev-parse", "tillerman/run/one")


async def test_the_commit_goes_on_top_of_others_that_came_meanwhile(
    desk: Desk, engine: Engine
) -> None:
    other = desk.project / "other"
    spec = desk.spec(desk.command("one"))
    other.write_text("other\n")
    desk.git("add", "-A")
    desk.git("commit", "-q", "-m", "Other")
    assert (await finished(engine, spec)).status == "completed"
    subjects = desk.git("log", "--format=%s", "main").splitlines()
    assert subjects == ["Run test", "Other", "Begin"]
    assert {"one.txt", "other"} <= set(desk.git("ls-tree", "--name-only", "main").split())


async def test_uncommitted_files_of_a_person_are_not_touched(desk: Desk, engine: Engine) -> None:
    (desk.project / "one.txt").write_text("mine\n")
    ended = await finished(engine, desk.spec(desk.command("one")))
    assert ended.status == "completed"
    assert (desk.project / "one.txt").read_text() == "mine\n"
    assert any("was not moved" in line.text for line in engine.store.log_lines("run"))
    assert desk.git("show", "tillerman/run/RESULT:one.txt") == "one"


async def test_in_a_shared_workspace_steps_work_in_the_folder(desk: Desk, engine: Engine) -> None:
    ended = await finished(
        engine,
        desk.spec(desk.command("one"), desk.command("two", needs=("one",)), workspace="shared"),
    )
    assert ended.status == "completed", engine.store.steps("run")
    assert (desk.project / "two.txt").read_text() == "two\n"
    assert desk.git("status", "--porcelain") == ""
    assert desk.git("log", "--format=%s", "main").splitlines() == ["Run test", "Begin"]
    changed = desk.git("diff", "--name-only", "tillerman/run/two^", "tillerman/run/two")
    assert changed == "two.txt"


# -- failures --------------------------------------------------------------------------------------


async def test_what_needs_a_failed_step_is_skipped_and_the_rest_is_done(
    desk: Desk, engine: Engine
) -> None:
    ended = await finished(
        engine,
        desk.spec(
            CommandStep(id="bad", command="echo oh; exit 3"),
            desk.command("after", needs=("bad",)),
            desk.command("last", needs=("after",)),
            desk.command("beside"),
        ),
    )
    assert (ended.status, ended.error) == ("failed", "bad: the command ended with exit code 3")
    assert statuses(engine) == {
        "bad": "failed", "after": "skipped", "last": "skipped", "beside": "completed"
    }  # fmt: skip
    assert desk.started() == ["beside"]
    assert desk.git("rev-list", "--count", "main") == "1"
    await desk.nothing_left()


async def test_other_exit_codes_can_pass(desk: Desk, engine: Engine) -> None:
    spec = desk.spec(CommandStep(id="three", command="exit 3", exits=(0, 3)))
    assert (await finished(engine, spec)).status == "completed"


async def test_a_time_limit_ends_a_step_and_its_processes(desk: Desk, engine: Engine) -> None:
    slow = CommandStep(id="slow", command="sleep 77 & sleep 77", limits=Limits(time=0.3))
    ended = await finished(engine, desk.spec(slow))
    assert ended.error == "slow: the command took longer than 0.3 s"
    assert engine.store.result("run", "slow").limit  # type: ignore[union-attr]
    assert not [one for one in desk.processes() if "sleep 77" in one]


async def test_a_cost_limit_of_the_run_skips_what_is_left(desk: Desk, engine: Engine) -> None:
    usage = {"usage": {"cost_usd": 1.0}}
    ended = await finished(
        engine,
        desk.spec(
            desk.agent("dear", usage), desk.command("after", needs=("dear",)),
            limits=Limits(cost=1.0),
        ),
    )  # fmt: skip
    assert ended.cost == 1.0
    assert ended.error == "after: the run exceeded its limit of 1 USD"
    assert desk.started() == ["dear"]


async def test_a_cost_limit_of_the_run_counts_steps_inside_of_others(
    desk: Desk, engine: Engine
) -> None:
    once = desk.agent("once", {"usage": {"cost_usd": 1.0}})
    loop = LoopStep(id="loop", steps=(once,), until="false", most=5)
    ended = await finished(engine, desk.spec(loop, limits=Limits(cost=2.0)))
    assert "the run exceeded its limit of 2 USD" in ended.error
    assert ended.cost == 2.0
    assert desk.started() == ["once", "once"]


async def test_an_agent_is_stopped_at_the_cost_that_the_run_may_still_have(
    desk: Desk, engine: Engine
) -> None:
    steps = [{"usage": {"cost_usd": cost}} for cost in (0.5, 1.0, 1.5, 2.0, 2.5)]
    dear = desk.agent("dear", *steps, {"run": desk.note("end")})
    ended = await finished(engine, desk.spec(dear, limits=Limits(cost=1.0)))
    assert ended.status == "failed"
    assert engine.store.result("run", "dear").limit  # type: ignore[union-attr]
    assert "end" not in desk.started()


async def test_each_attempt_of_best_of_has_its_limits() -> None:
    text = b"steps: [{id: a, limits: {time: 5m}, best_of: {attempts: 2, run: x, judge: {run: y}}}]"
    (best,) = read_definition(text, "case.yaml").pipeline.steps
    assert isinstance(best, BestOfStep)
    assert [one.limits.time for one in best.attempts] == [300, 300]


async def test_long_output_is_bounded(desk: Desk, engine: Engine) -> None:
    flood = CommandStep(id="flood", command="yes 0123456789 | head -c 20000000; echo; echo END")
    assert (await finished(engine, desk.spec(flood))).status == "completed"
    result = engine.store.result("run", "flood")
    assert result
    assert len(result.text) <= 16_000
    assert result.text.endswith("END")
    assert len(engine.output("run", "flood")) < (4 << 20) + 100


# -- groups ----------------------------------------------------------------------------------------


async def test_parallel_steps_run_together_and_their_files_are_merged(
    desk: Desk, engine: Engine
) -> None:
    meet = desk.ledger
    steps = tuple(
        CommandStep(
            id=id,
            command=f"echo x > {id}; note {id}; for n in $(seq 200); do "
            f"grep -q {other} {meet} && exit 0; sleep 0.05; done; exit 1",
        )
        for id, other in (("left", "right"), ("right", "left"))
    )
    after = CommandStep(id="after", needs=("both",), command="cat left right")
    ended = await finished(engine, desk.spec(ParallelStep(id="both", steps=steps), after))
    assert ended.status == "completed", engine.store.steps("run")
    assert engine.store.result("run", "after").text == "x\nx"  # type: ignore[union-attr]


async def test_a_conflict_is_a_gate(desk: Desk, engine: Engine) -> None:
    steps = tuple(CommandStep(id=id, command=f"echo {id} > same.txt") for id in ("one", "two"))
    spec = desk.spec(ParallelStep(id="both", steps=steps), desk.command("after", needs=("both",)))
    await engine.start("run", spec)
    await until_step(engine.store, "run", "both/MERGE", "waiting")
    gate = engine.store.gate("run", "both/MERGE")
    assert gate
    assert "same.txt" in gate.account
    with pytest.raises(UsageError, match="needs the commit"):
        await engine.answer("run", "both/MERGE", APPROVE)
    desk.git("checkout", "-q", "-b", "mine", "tillerman/run/both.one")
    (desk.project / "same.txt").write_text("both\n")
    desk.git("commit", "-q", "-am", "Merge by hand")
    desk.git("checkout", "-q", "main")
    ended = await answered(engine, "both/MERGE", Answer("approve", commit="mine"))
    assert ended.status == "completed", engine.store.steps("run")
    assert desk.git("show", "main:same.txt") == "both"


async def test_a_loop_feeds_the_failure_back_until_the_check_passes(
    desk: Desk, engine: Engine
) -> None:
    write = CommandStep(
        id="write", command="note {{ loop.iteration }}; echo {{ loop.output }} >> said; echo x >> x"
    )
    check = "n=$(wc -l < x); echo $n lines; rm -f x; [ $n = 3 ]"
    ended = await finished(
        engine, desk.spec(LoopStep(id="loop", steps=(write,), until=check, most=5))
    )
    assert ended.status == "completed", engine.store.steps("run")
    assert desk.started() == ["1", "2", "3"]
    assert desk.git("show", "main:said").splitlines() == ["1 lines", "2 lines"]
    assert desk.git("show", "main:x") == "x\nx\nx"  # what a check removes comes back


async def test_a_loop_is_bounded(desk: Desk, engine: Engine) -> None:
    loop = LoopStep(id="loop", steps=(desk.command("again"),), until="false", most=2)
    ended = await finished(engine, desk.spec(loop))
    assert ended.error == "loop: the check did not pass in 2 iterations"
    assert desk.started() == ["again", "again"]


async def test_a_map_runs_at_most_its_width_at_once(desk: Desk, engine: Engine) -> None:
    one = CommandStep(
        id="one", command="note +; sleep 0.2; echo {{ item }} > {{ item }}.txt; note -"
    )
    names = CommandStep(id="names", command="printf 'a\\nb b\\n\\nc\\nd\\ne\\n'")
    each = MapStep(
        id="each", needs=("names",), items="{{ steps.names.output }}", steps=(one,), width=2
    )
    ended = await finished(engine, desk.spec(names, each))
    assert ended.status == "completed", engine.store.steps("run")
    files = desk.git("ls-tree", "--name-only", "main").splitlines()
    assert files == ["README", "a.txt", "b b.txt", "c.txt", "d.txt", "e.txt"]
    at_once, most = 0, 0
    for sign in desk.started():
        at_once += 1 if sign == "+" else -1
        most = max(most, at_once)
    assert most == 2


@pytest.mark.parametrize(
    ("judge", "chosen"),
    [
        (CommandJudge("grep -q b pick"), "b"),
        (CommandJudge("echo score: $(cat score)"), "c"),
        (CommandJudge("false"), None),
        (AgentJudge(("mock",), '[{"say": "The second.\\nwinner: 1"}]'), "b"),
        (AgentJudge(("mock",), '[{"say": "I cannot tell."}]'), None),
    ],
)
async def test_best_of_keeps_what_the_judge_chose(
    desk: Desk, engine: Engine, judge: Any, chosen: str | None
) -> None:
    attempts = tuple(
        CommandStep(id=f"try-{word}", command=f"echo {word} > pick; echo {number} > score")
        for number, word in ((1, "a"), (2, "b"), (30, "c"))
    )
    if isinstance(judge, AgentJudge):  # the mock plays its prompt, which must be a script alone
        await _agent_judge(desk, engine, judge, attempts, chosen)
        return
    ended = await finished(engine, desk.spec(BestOfStep(id="best", attempts=attempts, judge=judge)))
    if chosen is None:
        assert ended.status == "failed"
    else:
        assert ended.status == "completed", engine.store.steps("run")
        assert desk.git("show", "main:pick") == chosen


async def _agent_judge(
    desk: Desk, engine: Engine, judge: AgentJudge, attempts: Any, chosen: str | None
) -> None:
    text = json.loads(judge.prompt)[0]["say"]
    script = desk.home / "judge.json"
    script.write_text(json.dumps([[{"say": text}]]))
    (desk.home / "config.toml").write_text(f'[agents.mock]\nscript = "{script}"\n')
    judge = replace(judge, prompt="Which is best?")
    import tillerman

    async with tillerman.open(cwd=desk.project) as harness:
        assert engine._worker
        engine._worker.harness = harness
        best = BestOfStep(id="best", attempts=attempts, judge=judge)
        ended = await finished(engine, desk.spec(best))
        if chosen is None:
            assert "named no candidate" in ended.error
        else:
            assert desk.git("show", "main:pick") == chosen, ended


async def test_a_person_can_choose(desk: Desk, engine: Engine) -> None:
    attempts = tuple(CommandStep(id=f"t{n}", command=f"echo {n} > pick") for n in range(3))
    best = BestOfStep(id="best", attempts=attempts, judge=PersonJudge("Which?"))
    await engine.start("run", desk.spec(best))
    await until_step(engine.store, "run", "best/JUDGE", "waiting")
    with pytest.raises(UsageError, match="not one of the attempts"):
        await engine.answer("run", "best/JUDGE", Answer("approve", choice="c7"))
    await answered(engine, "best/JUDGE", Answer("approve", choice="c2"))
    assert desk.git("show", "main:pick") == "2"


async def test_a_pipeline_can_call_another(desk: Desk, engine: Engine) -> None:
    inner = Pipeline(
        name="inner",
        inputs={"word": Input(), "more": Input(default="d", required=False)},
        steps=(CommandStep(id="say", command="echo {{ inputs.word }} {{ inputs.more }} > said"),),
    )
    outer = PipelineStep(id="call", pipeline="inner", inputs={"word": "from {{ run.id }}"})
    ended = await finished(engine, desk.spec(outer, called={"inner": inner}))
    assert ended.status == "completed", engine.store.steps("run")
    assert desk.git("show", "main:said") == "from run d"


# -- gates -----------------------------------------------------------------------------------------


async def test_a_gate_shows_what_it_is_about(desk: Desk, engine: Engine) -> None:
    gate = ReviewStep(id="gate", needs=("one",), message="Good?")
    await engine.start("run", desk.spec(desk.agent("one"), gate))
    await until_step(engine.store, "run", "gate", "waiting")
    found = engine.store.gate("run", "gate")
    assert found
    assert (found.message, found.account) == ("Good?", "did one")
    assert b"+++ b/one.txt" in await engine.diff("run", "gate")
    assert engine.look("run").status == "waiting"
    assert (await answered(engine, "gate", APPROVE)).status == "completed"
    assert not await engine.answer("run", "gate", Answer("reject"))  # the first counts


async def test_a_rejection_ends_the_run_with_its_word(desk: Desk, engine: Engine) -> None:
    gate = ReviewStep(id="gate", needs=("one",))
    after = desk.command("after", needs=("gate",))
    await engine.start("run", desk.spec(desk.command("one"), gate, after))
    ended = await answered(engine, "gate", Answer("reject", text="too slow"))
    assert (ended.status, ended.error) == ("rejected", "gate: rejected: too slow")
    assert desk.started() == ["one"]
    await desk.nothing_left()


async def test_an_approval_can_edit_the_account_and_the_files(desk: Desk, engine: Engine) -> None:
    gate = ReviewStep(id="gate", needs=("one",))
    after = CommandStep(
        id="after", needs=("gate",), command="cat one.txt; echo {{ steps.gate.text }}"
    )
    await engine.start("run", desk.spec(desk.command("one"), gate, after))
    await until_step(engine.store, "run", "gate", "waiting")
    desk.git("checkout", "-q", "-b", "edited", "tillerman/run/one")
    (desk.project / "one.txt").write_text("edited\n")
    desk.git("commit", "-q", "-am", "Edit")
    desk.git("checkout", "-q", "main")
    with pytest.raises(UsageError, match="no commit 'nowhere'"):
        await engine.answer("run", "gate", Answer("approve", commit="nowhere"))
    answer = Answer("approve", text="as I say", commit="edited")
    assert (await answered(engine, "gate", answer)).status == "completed"
    assert engine.store.result("run", "after").text == "edited\nas I say"  # type: ignore[union-attr]
    assert desk.git("show", "main:one.txt") == "edited"


# -- again -----------------------------------------------------------------------------------------


async def test_a_retry_keeps_what_completed(desk: Desk, engine: Engine) -> None:
    flag = Path(desk.home) / "flag"
    steps = (
        desk.command("one"),
        desk.command("bad", f"test -e {flag} || exit 1", needs=("one",)),
        desk.command("after", "cat one.txt", needs=("bad",)),
    )
    spec = desk.spec(*steps)
    assert (await finished(engine, spec)).status == "failed"
    flag.touch()
    made = again("run", spec, engine.store.results("run"), step=None)
    ended = await finished(engine, made, "second")
    assert (ended.status, ended.forked_from) == ("completed", "run"), ended
    assert desk.started() == ["one", "bad", "bad", "after"]
    assert desk.git("ls-tree", "--name-only", "main").split() == [
        "README", "after.txt", "bad.txt", "one.txt"
    ]  # fmt: skip


async def test_a_fork_runs_a_step_and_all_after_it_with_other_inputs(
    desk: Desk, engine: Engine
) -> None:
    steps = (
        desk.command("one"),
        CommandStep(id="two", needs=("one",), command="note two; echo {{ inputs.word }} > two.txt"),
        desk.command("three", needs=("two",)),
        desk.command("beside"),
    )
    spec = desk.spec(*steps, git=None, inputs={"word": "a"})
    spec = replace(spec, pipeline=replace(spec.pipeline, inputs={"word": Input()}))
    assert (await finished(engine, spec)).status == "completed"
    results = engine.store.results("run")
    made = again("run", spec, results, step="two", given={"word": "b"})
    assert (await finished(engine, made, "fork")).status == "completed"
    assert sorted(desk.started()[4:]) == ["three", "two"]
    assert desk.git("show", "tillerman/fork/RESULT:two.txt") == "b"
    assert desk.git("show", "tillerman/run/RESULT:two.txt") == "a"
    with pytest.raises(UsageError, match="no step 'tow'"):
        again("run", spec, results, step="tow")


async def test_forgetting_a_run_removes_its_branches(desk: Desk, engine: Engine) -> None:
    await finished(engine, desk.spec(desk.command("one"), git=GitEnd()))
    assert desk.git("branch", "--list", "tillerman/*")
    await engine.forget(["run"])
    assert not desk.git("branch", "--list", "tillerman/*")
    assert engine.store.run("run") is None


async def test_ignored_files_stay_for_the_next_step(desk: Desk, engine: Engine) -> None:
    first = CommandStep(
        id="first", command="echo cache > .gitignore; echo built > cache; echo x > y"
    )
    second = CommandStep(id="second", needs=("first",), command="cat cache")
    ended = await finished(engine, desk.spec(first, second))
    assert ended.status == "completed", engine.store.steps("run")
    assert engine.store.result("run", "second").text == "built"  # type: ignore[union-attr]


async def test_commands_get_no_keys(
    desk: Desk, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    await finished(engine, desk.spec(CommandStep(id="show", command="env")))
    result = engine.store.result("run", "show")
    assert result
    assert "sk-secret" not in result.text
    assert {"TILLERMAN_RUN=run", "TILLERMAN_STEP=show"} <= set(result.text.splitlines())
