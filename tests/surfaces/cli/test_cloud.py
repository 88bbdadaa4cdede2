"""`tillerman cloud` and `tillerman run` with a cloud agent: the real program, a stand-in cloud."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.cursor_cloud import KEY, CursorCloud, Fault, cursor_cloud_thread
from tests.surfaces.conftest import Bench

REPOSITORY = "https://github.com/your-org/your-repo"


@pytest.fixture
def cloud(bench: Bench) -> Iterator[CursorCloud]:
    with cursor_cloud_thread() as running:
        home = Path(bench.environment["TILLERMAN_HOME"])
        home.mkdir()
        (home / "config.toml").write_text(f'[agents.cursor-cloud]\nbase_url = "{running.url}"\n')
        bench.environment["CURSOR_API_KEY"] = KEY
        yield running


def git(bench: Bench, *words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=cwd or bench.project,
        env=bench.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(bench: Bench, tmp_path: Path) -> Path:
    """A clone whose branch is pushed; its remote is a folder that git reads as a URL on a host."""
    hub = tmp_path / "hub.git"
    (bench.home / ".gitconfig").write_text(
        "[user]\n\tname = Tester\n\temail = tester@example.org\n"
        '[protocol "file"]\n\tallow = always\n'
        f'[url "{hub}"]\n\tinsteadOf = {REPOSITORY}\n'
    )
    git(bench, "init", "--quiet", "--bare", "--initial-branch=main", str(hub))
    git(bench, "init", "--quiet", "--initial-branch=main")
    git(bench, "commit", "--quiet", "--allow-empty", "-m", "start")
    git(bench, "remote", "add", "origin", REPOSITORY)
    git(bench, "push", "--quiet", "--set-upstream", "origin", "main")
    return hub


def ok(bench: Bench, *words: str, **more: Any) -> str:
    done = bench.run("cloud", *words, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def launched(bench: Bench, *words: str) -> dict[str, Any]:
    given = words or ("--repo", REPOSITORY)
    found: dict[str, Any] = json.loads(ok(bench, "launch", "Add a README", "--json", *given))
    return found


def test_an_agent_is_launched_watched_prompted_and_deleted(
    bench: Bench, cloud: CursorCloud
) -> None:
    id = launched(bench)["id"]
    watched = bench.run("cloud", "watch", id)
    assert (watched.returncode, "I'll update the README now." in watched.stdout) == (0, True)
    assert "✓ finished" in watched.stderr and "Read `README.md`" in watched.stderr
    assert ok(bench, "followup", id, "More") == "sent\n"
    assert ok(bench, "stop", id) == "stopped\n"
    assert json.loads(ok(bench, "stop", id, "--json")) == {"id": id, "done": "not running"}
    shown = json.loads(ok(bench, "show", id, "--json"))
    assert (shown["state"], shown["status"]) == ("cancelled", "CANCELLED")
    assert "state         cancelled" in ok(bench, "show", id)
    assert id in ok(bench, "list")
    assert [one["id"] for one in json.loads(ok(bench, "list", "--json"))] == [id]
    asked = bench.run("cloud", "delete", id)
    assert (asked.returncode, cloud.deleted) == (2, [])
    assert ok(bench, "delete", id, "--archive") == "archived\n"
    assert ok(bench, "delete", id, "--yes") == "deleted\n"
    assert cloud.deleted == [id]
    assert ok(bench, "list") == "no cloud agents\n"


def test_a_watched_launch_prints_one_change_per_line_as_json(
    bench: Bench, cloud: CursorCloud
) -> None:
    lines = ok(bench, "launch", "x", "--repo", REPOSITORY, "--watch", "--json").splitlines()
    changes = [json.loads(line) for line in lines]
    assert changes[-1]["state"] == "finished"
    kinds = [event["type"] for change in changes for event in change["events"]]
    assert kinds[0] == "thought_chunk" and kinds[-1] == "turn_ended"


def test_the_account_is_shown(bench: Bench, cloud: CursorCloud) -> None:
    assert ok(bench, "whoami") == "dev@example.com, key Production API Key\n"
    assert "composer-2" in ok(bench, "models")
    assert ok(bench, "repos") == f"{REPOSITORY}\n"
    again = bench.run("cloud", "repos")
    assert (again.stdout, "s old" in again.stderr) == (f"{REPOSITORY}\n", True)
    assert sum(asked.path == "/v1/repositories" for asked in cloud.asked) == 1
    assert json.loads(ok(bench, "whoami", "--json"))["key_name"] == "Production API Key"
    status = bench.run("status", "cursor-cloud")
    assert "dev@example.com" in status.stdout


def test_artifacts_are_listed_and_downloaded_but_overwrite_nothing(
    bench: Bench, cloud: CursorCloud
) -> None:
    id = launched(bench)["id"]
    assert "artifacts/screenshot.png" in ok(bench, "artifacts", id)
    ok(bench, "artifacts", id, "--download", "artifacts/screenshot.png")
    assert (bench.project / "screenshot.png").read_bytes() == cloud.artifact
    again = bench.run("cloud", "artifacts", id, "--download", "artifacts/screenshot.png")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_a_launch_takes_repository_and_branch_from_the_folder(
    bench: Bench, cloud: CursorCloud, repository: Path
) -> None:
    (bench.project / "new").write_text("x")
    git(bench, "commit", "--quiet", "--allow-empty", "-m", "ours")
    done = bench.run("cloud", "launch", "Add a README")
    assert done.returncode == 0, done.stderr
    assert "1 commit is not pushed" in done.stderr and "without a commit" in done.stderr
    [agent] = cloud.agents.values()
    assert agent.body["repos"] == [{"url": REPOSITORY, "startingRef": "main"}]


def test_a_launch_from_a_branch_that_is_not_pushed_asks_for_one(
    bench: Bench, cloud: CursorCloud, repository: Path
) -> None:
    git(bench, "switch", "--quiet", "-c", "feature")
    done = bench.run("cloud", "launch", "Add a README")
    assert (done.returncode, "branch feature is not pushed" in done.stderr) == (2, True)
    git(bench, "remote", "rename", "origin", "one")
    git(bench, "remote", "add", "two", REPOSITORY)
    git(bench, "switch", "--quiet", "--detach")
    several = bench.run("cloud", "launch", "Add a README")
    assert (several.returncode, "no remote, or several" in several.stderr) == (2, True)
    assert not cloud.asked
    ok(bench, "launch", "Add a README", "--repo", REPOSITORY, "--ref", "main")


def test_run_launches_follows_up_and_resumes(
    bench: Bench, cloud: CursorCloud, repository: Path
) -> None:
    refused = bench.run("run", "-a", "cursor-cloud", "One")
    assert (refused.returncode, "--accept-advisory" in refused.stderr) == (4, True)
    words = ("run", "-a", "cursor-cloud", "--accept-advisory")
    done = bench.run(*words, "One")
    assert done.returncode == 0, done.stderr
    assert "Added README.md" in done.stdout
    [agent] = cloud.agents.values()
    assert agent.body["repos"] == [{"url": REPOSITORY, "startingRef": "main"}]
    assert bench.run("run", "-c", "Two").returncode == 0
    assert [run.prompt["text"] for run in agent.runs] == ["One", "Two"]
    events = [
        json.loads(line)["event"]
        for line in bench.run("sessions", "show", "last", "--json").stdout.splitlines()
    ]
    assert agent.id in [event.get("native_id") for event in events]


def test_an_agent_is_imported_and_its_branch_checked_out(
    bench: Bench, cloud: CursorCloud, repository: Path
) -> None:
    git(bench, "switch", "--quiet", "-c", "cursor/add-readme-a1b2")
    git(bench, "commit", "--quiet", "--allow-empty", "-m", "by the cloud")
    git(bench, "push", "--quiet", "origin", "HEAD")
    commit = git(bench, "rev-parse", "HEAD")
    git(bench, "switch", "--quiet", "main")
    git(bench, "branch", "--quiet", "-D", "cursor/add-readme-a1b2")
    id = launched(bench)["id"]
    bench.run("cloud", "watch", id)
    found = json.loads(ok(bench, "import", id, "--worktree", "--json"))
    assert git(bench, "rev-parse", "HEAD", cwd=Path(found["cwd"])) == commit
    shown = bench.run("sessions", "show", found["session"])
    assert "I'll update the README now." in shown.stdout
    again = bench.run("cloud", "import", id)
    assert (again.returncode, "already session" in again.stderr) == (2, True)
    resumed = bench.run("run", "--resume", found["session"], "--accept-advisory", "More")
    assert resumed.returncode == 0, resumed.stderr
    assert len(cloud.agents[id].runs) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("launch", " ", "--no-repo"), "the prompt is empty"),
        (("launch", "x", "--repo", "a", "--pr", "b"), "give one of --repo"),
        (("launch", "x", "--pr", "b"), "not the URL of a pull request"),
        (("launch", "x", "--repo", "/srv/x"), "cannot reach the repository"),
        (("launch", "x", "--no-repo", "--webhook", "https://a.example"), "has no secret"),
        (("launch", "x", "--no-repo", "--attach", "missing.png"), "No such file"),
        (("show", "../x"), "not the id of a cloud agent"),
        (("show", "a%2Fb"), "not the id of a cloud agent"),
        (("artifacts", "bc-1", "-o", "x"), "-o is for --download"),
        (("artifacts", "bc_1"), "has no artifacts"),
        (("list", "-a", "mock"), "mock does not support cloud agents"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    bench: Bench, cloud: CursorCloud, words: tuple[str, ...], message: str
) -> None:
    done = bench.run("cloud", *words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not cloud.asked


def test_a_missing_and_a_wrong_key_name_the_next_step(bench: Bench, cloud: CursorCloud) -> None:
    for key in ("", "crsr_another_key_0123456789"):
        done = bench.run("cloud", "whoami", CURSOR_API_KEY=key)
        assert (done.returncode, "set CURSOR_API_KEY" in done.stderr) == (3, True), done.stderr


def test_the_key_appears_nowhere(bench: Bench, cloud: CursorCloud, repository: Path) -> None:
    """Not in output, JSON, logs, exceptions, stored files, nor the command lines of processes."""
    leak = json.dumps({"error": {"code": "x", "message": f"not {KEY}"}}).encode()
    id = launched(bench)["id"]
    commands = (
        ("--debug", "cloud", "watch", id),
        ("--debug", "cloud", "show", id, "--json"),
        ("--debug", "run", "-a", "cursor-cloud", "--approve", "auto", "--json", "x"),
        ("--debug", "config", "show"),
        ("--debug", "config", "show", "--json"),
        ("--debug", "agents", "cursor-cloud", "--json"),
        ("--debug", "doctor", "--json"),
    )
    outputs = [bench.run(*words) for words in commands]
    cloud.fault = lambda _: Fault(status=400, body=leak)
    outputs.append(bench.run("--debug", "cloud", "list"))
    outputs.append(bench.run("--debug", "run", "-a", "cursor-cloud", "--approve", "auto", "x"))
    lines = Path(bench.environment["TILLERMAN_HOME"], "config.toml")
    lines.write_text(lines.read_text() + f'api_key = "{KEY}"\n')
    cloud.fault = lambda _: None
    del bench.environment["CURSOR_API_KEY"]
    outputs.append(bench.run("--debug", "cloud", "whoami", "--json"))
    assert outputs[-1].returncode == 0
    outputs.append(bench.run("--debug", "run", "-a", "cursor-cloud", "--approve", "auto", "x"))
    assert outputs[-1].returncode == 0, outputs[-1].stderr
    outputs.append(bench.run("config", "show"))
    outputs.append(bench.run("config", "show", "--json"))
    for done in outputs:
        assert KEY not in done.stdout + done.stderr, done.args
    lines.unlink()
    for file in bench.home.parent.rglob("*"):
        if file.is_file() and not file.is_symlink():
            assert KEY.encode() not in file.read_bytes(), file
    assert all(KEY not in asked.path + str(asked.query) + str(asked.body) for asked in cloud.asked)


def test_a_status_is_reported_soon_whether_or_not_the_cloud_answers(
    bench: Bench, cloud: CursorCloud
) -> None:
    body = b'{"error":"Unauthorized","message":"Invalid API key"}'
    cloud.fault = lambda _: Fault(status=401, body=body)
    assert "not signed in" in bench.run("status", "cursor-cloud").stdout
    cloud.fault = lambda _: Fault(refuse=True)
    before = len(cloud.asked)
    unreachable = bench.run("status", "cursor-cloud")
    assert "no answer from 127.0.0.1" in unreachable.stdout + unreachable.stderr
    assert len(cloud.asked) - before == 2
