"""Several agents, profiles, handoff and limits on the command line."""

import json
from typing import Any

import pytest

from tests.surfaces.conftest import Bench

QUOTA = {"fail": "billing", "message": "the quota is used up", "hint": "add credit"}


def configure(bench: Bench, text: str) -> None:
    folder = bench.home.parent / "tillerman"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)


def last_line(text: str) -> Any:
    return json.loads(text.splitlines()[-1])


def test_the_first_usable_agent_is_used_and_the_result_names_it(bench: Bench) -> None:
    configure(bench, '[agents.other]\nacp = "no-such-program-anywhere"\n')
    done = bench.run("run", "-a", "other,mock", "--json=summary", '[{"say": "Hello."}]')
    assert done.returncode == 0
    result = last_line(done.stdout)
    assert (result["agent"], result["fallback"], result["text"]) == ("mock", True, "Hello.")
    output = bench.run("run", "-a", "other,mock", '[{"say": "Hello."}]')
    assert "other is not installed: mock is used instead" in output.stderr


def test_no_usable_agent_is_exit_3(bench: Bench) -> None:
    configure(bench, '[agents.a]\nacp = "no-such-a"\n[agents.b]\nacp = "no-such-b"\n')
    done = bench.run("run", "-a", "a,b", "hello")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        3,
        "error: a is not installed; b is not installed",
    )


def test_a_profile_runs_by_its_name_and_is_listed(bench: Bench) -> None:
    folder = bench.home.parent / "tillerman" / "agents"
    folder.mkdir(parents=True)
    (folder / "brief.md").write_text("---\nagent: mock\ndescription: says little\n---\nBe brief.")
    (folder / "broken.md").write_text("---\nagent: mock\n")
    done = bench.run("run", "-a", "brief", '[{"say": "{system}"}]')
    assert (done.returncode, done.stdout) == (0, "Be brief.\n")
    listed = bench.run("agents", "--json")
    by_name = {one["name"]: one for one in json.loads(listed.stdout)}
    assert by_name["brief"]["description"] == "says little"
    assert "the front matter has no end" in by_name["broken"]["problem"]
    broken = bench.run("run", "-a", "broken", "hello")
    assert broken.returncode == 2
    assert "broken.md:2: the front matter has no end" in broken.stderr


def test_a_model_alone_chooses_the_agent(bench: Bench) -> None:
    configure(bench, '[models."house-1"]\nmock = "mock-deep"\n')
    done = bench.run("run", "-m", "house-1", '[{"say": "{model}"}]')
    assert (done.returncode, done.stdout) == (0, "mock-deep\n")
    claude = bench.run("run", "-m", "sonnet-4.5", "hello", PATH="/nowhere")
    assert (claude.returncode, "claude is not installed" in claude.stderr) == (3, True)
    codex = bench.run("run", "-m", "gpt-5-codex", "hello", PATH="/nowhere")
    assert (codex.returncode, "codex is not installed" in codex.stderr) == (3, True)
    nobody = bench.run("run", "-m", "llama-9", "hello")
    assert (nobody.returncode, "sonnet-4.5" in nobody.stderr) == (2, True)


def test_a_session_handed_over_stays_with_the_new_agent(bench: Bench) -> None:
    bench.mock([{"write": "a.txt", "text": "1\n"}, {"say": "Half."}], "--approve", "auto")
    refused = bench.run("run", "-c", "-a", "claude", "go")
    assert "tillerman handoff" in refused.stderr
    itself = bench.run("handoff", "last", "-a", "mock")
    assert (itself.returncode, "already uses mock" in itself.stderr) == (2, True)
    configure(bench, f'[agents.other]\nacp = "{bench.home}/no-such"\n')
    missing = bench.run("handoff", "last", "-a", "other", "and now?")
    assert missing.returncode == 3
    assert "hands over" not in bench.run("sessions", "show", "last").stdout
    still = bench.run("run", "-c", "--json=summary", '[{"say": "Hello."}]')
    assert (last_line(still.stdout)["agent"], still.returncode) == ("mock", 0)


LIMITS = {
    "turns": ("--max-turns=1", [{"run": "true"}, {"run": "sleep 60"}], 5, "turn_limit"),
    "tokens": (
        "--max-tokens=5",
        [{"usage": {"input_tokens": 9}}, {"run": "sleep 60"}],
        5,
        "token_limit",
    ),
    "cost": (
        "--max-cost=0.1",
        [{"usage": {"cost_usd": 0.2}}, {"run": "sleep 60"}],
        5,
        "cost_limit",
    ),
    "time": ("--timeout=1", [{"run": "sleep 60"}], 124, "timed_out"),
}


@pytest.mark.parametrize(("limit", "steps", "code", "kind"), LIMITS.values(), ids=LIMITS)
def test_a_limit_stops_an_agent_that_has_none_of_its_own(
    bench: Bench, limit: str, steps: list[dict[str, Any]], code: int, kind: str
) -> None:
    done = bench.mock(steps, "--approve=auto", "--json=summary", limit)
    assert (done.returncode, last_line(done.stdout)["failure"]["kind"]) == (code, kind)


def test_the_quota_of_the_only_agent_is_reported_as_before(bench: Bench) -> None:
    done = bench.mock([QUOTA])
    assert done.returncode == 1
    assert "error: the quota is used up\nhint: add credit" in done.stderr
