"""Commands about agents and this machine, with stand-ins for the agents' programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.stand_ins.cursor_stand_in import install_cursor
from tests.surfaces.conftest import Bench
from tillerman.core.agent_admin import Account, Installed
from tillerman.harness.agent_admin import AgentStatus
from tillerman.surfaces.cli.commands.agents import HEAD, cells
from tillerman.surfaces.cli.views.output import table
from tillerman.surfaces.rendering.ansi_style import Style

BARE = "/usr/bin:/bin"

CLAUDE = """\
words = sys.argv[1:]
state = pathlib.Path(__file__).with_suffix(".state")
signed_in = state.exists()
if words == ["--version"]:
    print("2.1.325 (Claude Code)")
elif words == ["auth", "status"]:
    print(json.dumps({"loggedIn": signed_in, "authMethod": "claude.ai", "email": "ann@example.org"}
                     if signed_in else {"loggedIn": False, "authMethod": "none"}))
    sys.exit(0 if signed_in else 1)
elif words == ["auth", "login"]:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once, even just before it reads
    print("type the code:", end=" ", flush=True)
    code = input()
    if code == "letmein":
        state.touch()
    sys.exit(0 if code else 3)
elif words == ["auth", "logout"]:
    state.unlink(missing_ok=True)
elif words[:2] == ["mcp", "list"]:
    print("docs: npx docs-server - \\u2714 Connected")
elif words[:2] in (["mcp", "add-json"], ["mcp", "remove"]):
    state.with_suffix(".words").write_text(json.dumps(words))
else:
    sys.exit(f"no such command: {words}")
"""


def install(bench: Bench, name: str, body: str) -> Path:
    folder = bench.home / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(
        f"#!{sys.executable} -I\nimport json, os, pathlib, signal, sys, time\n{body}"
    )
    program.chmod(0o755)
    bench.environment["PATH"] = f"{folder}:{BARE}"
    return program


def stand_in(bench: Bench) -> None:
    """A cursor-agent with a signed-in account."""
    install_cursor(bench.home / "bin", bench.home)
    bench.environment["PATH"] = f"{bench.home / 'bin'}:{BARE}"


@pytest.fixture(autouse=True)
def no_agent_of_this_machine(bench: Bench) -> None:
    bench.environment["PATH"] = BARE


# -- agents, models, status ------------------------------------------------------------------------


def test_agents_are_listed_with_the_missing_steps(bench: Bench) -> None:
    fields = {one["name"]: one for one in json.loads(bench.run("agents", "--json").stdout)}
    assert fields["claude"]["installed"]["path"] is None
    assert fields["claude"]["tested"] == ["2.1.197", "2.1.325"]
    assert (fields["claude"]["state"], fields["mock"]["state"]) == ("not installed", "ready")
    assert "streaming" in fields["mock"]["can"]
    text = bench.run("agents").stdout
    assert re.search(r"^claude +not installed +2\.1\.197 – 2\.1\.325$", text, re.MULTILINE)
    assert re.search(r"^mock +ready$", text, re.MULTILINE)
    assert "\nto install claude: npm install -g @anthropic-ai/claude-code\n" in text
    assert "\nto install codex, codex-exec: npm install -g @openai/codex\n" in text
    assert bench.run("agents", "nobody").returncode == 2


def test_details_of_one_agent(bench: Bench) -> None:
    one = bench.run("agents", "mock").stdout
    assert one.startswith("mock  Mock, ready\n")
    assert "  ✓ streaming      streams text as it is generated\n" in one
    assert "  · folders        accepts additional folders\n" in one


def test_the_capability_table_fits_a_terminal(bench: Bench) -> None:
    terminal = bench.terminal("agents", "--can")
    assert terminal.end() == 0
    shown = [line for line in terminal.text.splitlines() if not line.startswith("waiting")]
    assert re.search(r"^steer +.*\bclaude\b.*\bmock\b", "\n".join(shown), re.MULTILINE)
    assert max(map(len, shown)) <= 80
    assert "…" not in "\n".join(shown)


RUDE = """
from tillerman.agents.mock import INFO, MockAgent
from tillerman.agents.mock.wire import MockWire
from msgspec.structs import replace

class Rude(MockAgent):
    async def account(self, run):
        raise ValueError("not today")

agent = Rude(replace(INFO, name="rude", title="Rude"), MockWire)
"""


def test_a_failing_third_party_agent_is_listed_beside_the_others(
    bench: Bench, tmp_path: Path
) -> None:
    offered = tmp_path / "site" / "rude-1.0.dist-info"
    offered.mkdir(parents=True)
    points = "[tillerman.agents]\nrude = rude_agent:agent\ngone = no_such_module:agent\n"
    (offered / "entry_points.txt").write_text(points)
    (tmp_path / "site" / "rude_agent.py").write_text(RUDE)
    bench.environment["PYTHONPATH"] = str(tmp_path / "site")
    done = bench.run("agents")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^rude +broken$", done.stdout, re.MULTILINE)
    assert "\nrude: ValueError: not today\n" in done.stdout
    assert "\ngone: cannot be loaded: ConfigError: agent 'gone' cannot be" in done.stdout
    assert re.search(r"^mock +ready$", done.stdout, re.MULTILINE)
    assert bench.run("status", "rude").returncode == 1
    assert bench.run("doctor").returncode == 0


def test_the_table_of_agents() -> None:
    claude = Installed("claude", "/usr/bin/claude", "2.2.0", "npm install claude")
    reports = [
        AgentStatus("acme", "Acme", installed=Installed("acme", None, None, "pip install acme")),
        AgentStatus(
            "claude", "Claude Code", tested=("2.1.197", "2.1.325"), installed=claude,
            account=Account(True, "browser", "somebody.with.a.long.name@example.org"),
        ),
        AgentStatus("gemini", "Gemini", tested=("0.61.0", "0.61.0"), account=Account(False)),
        AgentStatus("odd", "Odd", problem="it said nothing"),
    ]  # fmt: skip
    shown = table(map(cells, reports), HEAD, Style(False), 80, wrap=True)
    assert shown == (
        "AGENT   STATE          VERSION  TESTED             SIGNED IN\n"
        "acme    not installed\n"
        "claude  ready          2.2.0    2.1.197 – 2.1.325  by browser as somebody.with.a\n"
        "                                                   .long.name@example.org\n"
        "gemini  not signed in           0.61.0\n"
        "odd     broken"
    )


def test_a_newer_agent_than_any_tested_is_reported(bench: Bench) -> None:
    install(bench, "claude", CLAUDE.replace("2.1.325", "2.9.0"))
    newer = "Claude Code 2.9.0 is newer than 2.1.325, the newest tested version"
    assert newer in bench.run("agents").stdout
    assert newer in bench.run("doctor").stdout


def test_models_of_one_agent_and_of_all(bench: Bench) -> None:
    listed = json.loads(bench.run("models", "mock", "--json").stdout)
    assert [model["id"] for model in listed["mock"]] == ["mock-quick", "mock-deep"]
    assert bench.run("models", "-a", "mock").stdout == (
        "AGENT  MODEL       CONTEXT  EFFORT  WHAT\n"
        "mock   mock-quick  8.0k             Mock Quick (default)\n"
        "mock   mock-deep   64.0k            Mock Deep (thinking)\n"
    )
    assert "mock-deep" in bench.run("models").stdout
    unable = bench.run("models", "replay")
    assert (unable.returncode, unable.stderr) == (
        2,
        "error: replay does not support listing models\n"
        "hint: `tillerman agents replay` lists what it supports\n",
    )
    missing = bench.run("models", "claude")
    assert missing.returncode == 3
    assert "hint: npm install -g @anthropic-ai/claude-code\n" in missing.stderr


def test_models_of_an_agent_that_lists_none_come_from_the_table_and_are_marked(
    bench: Bench,
) -> None:
    home = Path(bench.environment["TILLERMAN_HOME"])
    home.mkdir()
    config = '[agents.acme]\nacp = "acme --acp"\n[models."opus-5"]\nacme = "acme-opus"\n'
    (home / "config.toml").write_text(config)
    assert bench.run("models", "acme").stdout == (
        "AGENT  MODEL       CONTEXT  EFFORT  WHAT\n"
        "acme   acme-opus*                   opus-5\n"
        "* from tillerman's model table: the agent does not list its models\n"
    )
    (model,) = json.loads(bench.run("models", "--json").stdout)["acme"]
    assert (model["id"], model["shipped"]) == ("acme-opus", True)


def test_status_reports_how_to_sign_in_with_an_exit_code(bench: Bench) -> None:
    assert bench.run("status", "claude").returncode == 3
    program = install(bench, "claude", CLAUDE)
    hint = "run `claude auth login` or set ANTHROPIC_API_KEY"
    signed_out = bench.run("status", "claude")
    assert (signed_out.returncode, signed_out.stdout) == (
        3, f"claude  not signed in\n  to sign in to claude: {hint}\n",
    )  # fmt: skip
    everyone = bench.run("status")
    assert everyone.returncode == 0
    assert re.search(rf"^claude +not signed in +{re.escape(hint)}$", everyone.stdout, re.MULTILINE)
    program.with_suffix(".state").touch()
    signed_in = bench.run("status", "claude")
    assert signed_in.returncode == 0
    assert signed_in.stdout.startswith("claude  ready\n  signed in by browser as ann@example.org\n")
    (reported,) = json.loads(bench.run("status", "claude", "--json").stdout)
    assert reported["ready"] is True
    assert reported["account"] == {
        "signed_in": True, "method": "browser", "who": "ann@example.org", "hint": "",
    }  # fmt: skip


# -- login and logout ------------------------------------------------------------------------------


def test_login_hands_the_terminal_to_the_agent_and_checks_afterwards(bench: Bench) -> None:
    install(bench, "claude", CLAUDE)
    terminal = bench.terminal("login", "claude")
    terminal.wait_for("running `claude auth login`; it may open your browser")
    terminal.wait_for("type the code:")
    terminal.press("letmein\n")
    assert terminal.end() == 0
    assert "claude is signed in by browser as ann@example.org" in terminal.text
    out = bench.run("logout", "claude")
    assert (out.returncode, out.stdout) == (0, "claude is signed out\n")


def test_ctrl_c_ends_the_agents_login_and_ours(bench: Bench) -> None:
    install(bench, "claude", CLAUDE)
    terminal = bench.terminal("login", "claude")
    terminal.wait_for("type the code:")
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "bug" not in terminal.text


def test_ctrl_c_before_the_agent_has_started_is_not_lost(bench: Bench) -> None:
    program = install(bench, "claude", "")
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    terminal = bench.terminal("login", "claude")
    terminal.wait_for("it may open your browser")
    terminal.press("\x03")
    assert terminal.end() == 130


def test_a_failed_login_is_reported(bench: Bench) -> None:
    install(bench, "claude", CLAUDE)
    wrong = bench.run("login", "claude", input="something else\n")
    assert wrong.returncode == 3
    assert "error: claude is still not signed in\nhint: run `claude auth login`" in wrong.stderr
    failed = bench.run("login", "claude", input="\n")
    assert failed.returncode == 1
    assert "error: `claude auth login` exited with 3\n" in failed.stderr


def test_an_agent_without_a_login_reports_which_variable_to_set(bench: Bench) -> None:
    login = bench.run("login", "gemini")
    assert (login.returncode, login.stderr) == (
        2,
        "error: gemini does not support signing in by command\n"
        "hint: set GEMINI_API_KEY, or run `gemini` and sign in with /auth; "
        "then: tillerman status gemini\n",
    )
    assert bench.run("logout", "gemini").stderr.endswith(
        "hint: unset the variable, or sign out in the program itself\n"
    )


def test_an_agent_without_accounts_is_reported(bench: Bench) -> None:
    assert bench.run("login", "mock").stderr == (
        "error: mock does not support signing in by command\n"
        "hint: `tillerman agents mock` lists what it supports\n"
    )
    assert bench.run("login", "claude").returncode == 3  # not installed
    assert bench.run("login").returncode == 2


# -- MCP servers -----------------------------------------------------------------------------------


def test_mcp_servers_are_listed_added_and_removed(bench: Bench) -> None:
    reported = install(bench, "claude", CLAUDE).with_suffix(".words")
    assert bench.run("mcp", "list", "-a", "claude").stdout == (
        "AGENT   SERVER  STATUS     COMMAND\n"
        "claude  docs    connected  npx docs-server\n"
    )  # fmt: skip
    listed = json.loads(bench.run("mcp", "list", "--json").stdout)
    assert listed["claude"] == [
        {"name": "docs", "status": "connected", "command": "npx docs-server"}
    ]
    added = bench.run("mcp", "add", "docs", "-a", "claude", "--", "npx", "docs", "--port", "1")
    assert (added.returncode, added.stdout) == (0, "added MCP server docs to claude\n")
    *_, config = json.loads(reported.read_text())
    assert json.loads(config) == {"command": "npx", "args": ["docs", "--port", "1"]}
    bench.run("mcp", "add", "web", "--url", "https://example.org/mcp")
    *_, config = json.loads(reported.read_text())
    assert json.loads(config) == {"type": "http", "url": "https://example.org/mcp"}
    assert bench.run("mcp", "remove", "docs").returncode == 0
    assert json.loads(reported.read_text())[-1] == "docs"


def test_a_secret_does_not_go_on_a_command_line_unless_requested(bench: Bench) -> None:
    reported = install(bench, "claude", CLAUDE).with_suffix(".words")
    words = ("mcp", "add", "docs", "--env", "DOCS_TOKEN", "--", "npx", "docs")
    refused = bench.run(*words, DOCS_TOKEN="sk-docs-1234567")
    assert (refused.returncode, refused.stderr) == (
        4,
        "error: claude accepts the value of DOCS_TOKEN only on its command line, which every user "
        "of this machine can read\nhint: use --yes to continue anyway, or add it by hand\n",
    )
    assert not reported.exists()
    config = '{"type": "http", "url": "https://x", "headers": {"Authorization": "Bearer sk-77"}}'
    from_stdin = ("mcp", "add", "docs", "--config", "-")
    assert bench.run(*from_stdin, input=config).returncode == 4
    assert not reported.exists()
    assert bench.run(*from_stdin, "--yes", input=config).returncode == 0
    assert json.loads(json.loads(reported.read_text())[-1]) == json.loads(config)


def test_unsupported_server_actions_of_an_agent_are_reported(bench: Bench) -> None:
    assert bench.run("mcp", "disable", "docs", "-a", "mock").stderr == (
        "error: mock does not support disabling MCP servers\n"
        "hint: `tillerman agents mock` lists what it supports\n"
    )


def test_the_servers_of_an_agent_are_shown_and_switched(bench: Bench) -> None:
    stand_in(bench)
    (bench.home / ".cursor").mkdir(exist_ok=True)
    offered = {"search": ["query", "limit"], "fetch": ["url"]}
    servers = {"docs": {"command": "npx", "args": ["docs-server"], "tools": offered}}
    (bench.home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert bench.run("mcp", "enable", "docs", "-a", "cursor").stdout == (
        "cursor uses the MCP server docs\n"
    )
    before = bench.run("mcp", "list", "-a", "cursor").stdout
    assert re.search(r"^cursor +docs +ready", before, re.MULTILINE)
    assert bench.run("mcp", "tools", "docs", "-a", "cursor").stdout == (
        "TOOL    ARGUMENTS    WHAT\nsearch  query limit\nfetch   url\n"
    )
    tools = json.loads(bench.run("mcp", "tools", "docs", "-a", "cursor", "--json").stdout)
    assert tools[0] == {"name": "search", "description": "", "arguments": ["query", "limit"]}
    assert bench.run("mcp", "disable", "docs", "-a", "cursor").stdout == (
        "cursor does not use the MCP server docs\n"
    )
    after = bench.run("mcp", "list", "-a", "cursor").stdout
    assert re.search(r"^cursor +docs +disabled", after, re.MULTILINE)
    none = bench.run("mcp", "tools", "nothing", "-a", "cursor")
    assert none.returncode == 1
    assert none.stderr.startswith("error: ")


# -- doctor ----------------------------------------------------------------------------------------


def test_doctor_names_variables_and_never_their_values(bench: Bench) -> None:
    secret = "sk-not-for-anyones-eyes"
    done = bench.run("doctor", ANTHROPIC_API_KEY=secret)
    assert done.returncode == 0, done.stdout
    assert "passed to every agent: COLUMNS" not in done.stdout
    assert re.search(r"passed to every agent: HOME LANG PATH TERM\n", done.stdout)
    assert re.search(r"also passed to claude: ANTHROPIC_API_KEY\n", done.stdout)
    assert "also passed to mock: TILLERMAN_MOCK_STATE\n" in done.stdout
    assert secret not in done.stdout + done.stderr
    findings = json.loads(bench.run("doctor", "--json").stdout)
    assert list(dict.fromkeys(one["about"] for one in findings)) == [
        "program", "agents", "environment", "supervision", "enforcement", "isolation", "store",
        "files", "config",
    ]  # fmt: skip


def test_doctor_reports_every_level_of_isolation_and_its_fix(bench: Bench) -> None:
    findings = json.loads(bench.run("doctor", "--json").stdout)
    found = [one for one in findings if one["about"] == "isolation"]
    assert [one["text"].partition(": ")[0] for one in found] == ["basic", "medium", "high"]
    assert found[0]["level"] == "ok"
    assert all(one["level"] == "ok" or (one["level"] == "note" and one["fix"]) for one in found)


def test_doctor_reports_what_the_kernel_enforces(bench: Bench) -> None:
    bench.mock([{"say": "x"}])
    home = Path(bench.environment["TILLERMAN_HOME"])

    def states(commands: str) -> dict[str, str]:
        (home / "config.toml").write_text(f'[enforcement]\ncommands = "{commands}"\n')
        findings = json.loads(bench.run("doctor", "--wait", "5", "--json").stdout)
        texts = [one["text"] for one in findings if one["about"] == "enforcement"]
        return dict(text.split(": ", 1) for text in texts)

    assert list(states("auto")) == ["protected names", "denied paths", "denied commands"]
    by_default = "enforced" if os.geteuid() == 0 else "advisory (for ordinary users"
    assert states("auto")["denied commands"].startswith(by_default)
    assert states("on")["denied commands"].startswith("enforced")
    off = 'advisory (enforcement.commands is "off")'
    assert states("off")["denied commands"] == off


def test_doctor_continues_after_a_failure(bench: Bench) -> None:
    bench.mock([{"say": "x"}])
    home = Path(bench.environment["TILLERMAN_HOME"])
    (home / "config.toml").write_text('approve = "perhaps"\n')
    (home / "state" / "store.db").write_bytes(b"no database" * 1000)
    done = bench.run("doctor")
    assert done.returncode == 1
    assert "✗" in done.stdout
    assert "approve must be one of" in done.stdout
    assert "Supervision" in done.stdout
    assert "Traceback" not in done.stderr


def test_doctor_needs_one_line_for_everything_not_installed(bench: Bench) -> None:
    install(bench, "qwen", "print('0.24.4')")
    text = bench.run("doctor").stdout
    assert "! not installed: claude, claude-agent-acp, codex, " in text
    assert "    fix: `tillerman agents` shows how to install them\n" in text
    assert text.count("! not installed: ") == 1


BROKEN = {
    "sys.stdout.buffer.write(os.urandom(99))": "cannot parse the output of `claude auth status`",
    "os.abort()": "`claude --version` was terminated by signal 6",
    "sys.exit('no licence')": "`claude --version` failed: no licence",
}


def of_agent(done: subprocess.CompletedProcess[str], name: str) -> dict[str, str]:
    (finding,) = (
        one
        for one in json.loads(done.stdout)
        if one["about"] == "agents" and one["text"].startswith(f"{name}:")
    )
    return finding


@pytest.mark.parametrize("body", BROKEN)
def test_doctor_reports_how_an_agent_is_broken(bench: Bench, body: str) -> None:
    program = install(bench, "claude", body)
    done = bench.run("doctor", "--json")
    assert done.returncode == 0  # this agent was not selected
    finding = of_agent(done, "claude")
    assert finding["level"] == "note"
    where = f"claude: broken, unknown version at {program}, "
    assert finding["text"].startswith(where + BROKEN[body])
    assert finding["fix"].startswith(f"check the output of `{program} --version`; to reinstall it")


def test_doctor_is_not_delayed_by_agents_that_hang_or_never_stop_printing(bench: Bench) -> None:
    install(bench, "claude", "time.sleep(600)")
    install(bench, "codex", "while True: print(os.urandom(999)); time.sleep(0.001)")
    start = time.monotonic()
    done = bench.run("doctor", "--json", "--wait", "4")
    assert time.monotonic() - start < 25
    assert done.returncode == 0
    for name in ("claude", "codex"):
        text = of_agent(done, name)["text"]
        assert re.search(r"did not end in time$|did not answer within 4 s$", text), text
    assert {one["about"] for one in json.loads(done.stdout)} >= {"supervision", "store", "config"}


def test_an_agent_that_the_user_chose_must_work(bench: Bench) -> None:
    bench.run("config", "set", "agent", "claude")
    done = bench.run("doctor", "--json")
    finding = of_agent(done, "claude")
    assert (done.returncode, finding["level"]) == (1, "bad")
    assert finding["text"] == "claude: not installed"
    assert finding["fix"] == "npm install -g @anthropic-ai/claude-code"
    bench.run("config", "set", "agent", "claude,mock")  # which has another to fall back on
    assert bench.run("doctor").returncode == 0


def test_doctor_compares_node_with_what_an_agents_package_asks_for(bench: Bench) -> None:
    install(bench, "node", 'print("v18.1.0")')
    package = bench.home / "bin" / "pkg"
    package.mkdir()
    (package / "package.json").write_text('{"engines": {"node": ">=22.4.0"}}')
    program = package / "cli.js"
    program.write_text("#!/usr/bin/env node\n")
    program.chmod(0o755)
    (bench.home / "bin" / "claude").symlink_to(program)
    text = bench.run("doctor").stdout
    assert f"✓ Node 18.1.0 at {bench.home}/bin/node\n" in text
    assert "! claude requires Node 22.4.0, but `node` is 18.1.0\n" in text
    assert "fix: install Node 22.4.0 or newer\n" in text


def test_doctor_finds_leftovers(bench: Bench) -> None:
    bench.mock([{"say": "x"}])
    state = Path(bench.environment["TILLERMAN_HOME"]) / "state"
    (state / "spill" / "gone").mkdir(parents=True)
    (state / "spill" / "gone" / "1.txt").write_text("x" * 3000)
    state.chmod(0o755)
    done = bench.run("doctor")
    assert done.returncode == 0
    lost = state / "spill"
    assert f"! 1 folders of deleted sessions, 3.0 kB, in {lost}\n" in done.stdout
    assert f"fix: rm -r {lost}/gone\n" in done.stdout
    assert f"! {state} is accessible to other users (mode 755)\n    fix: chmod 700 {state}\n" in (
        done.stdout
    )


# -- sessions that an agent stores by itself -------------------------------------------------------

STORED = Path(__file__).parents[2] / "recordings" / "claude" / "stored_session.jsonl"
NATIVE = "bd1646d1-942a-49b1-8901-acd4b28b9780"


def keep_session(bench: Bench, secret: str = "") -> None:
    """A session of the project in Claude Code's files."""
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(bench.project.resolve()))
    folder = bench.home / ".claude" / "projects" / slug
    folder.mkdir(parents=True)
    text = STORED.read_text().replace("Kept.", f"Kept. {secret}".rstrip())
    (folder / f"{NATIVE}.jsonl").write_text(text)


def test_a_session_of_an_agents_own_is_listed_and_taken_over_once(bench: Bench) -> None:
    secret = "sk-ant-not-for-the-store-123456"
    keep_session(bench, secret)
    install(bench, "claude", CLAUDE)
    listed = bench.run("sessions", "native", "-a", "claude").stdout
    assert re.search(rf"^{NATIVE}  just now +@@keep@@ this one$", listed, re.MULTILINE)
    taken = bench.run("sessions", "import", NATIVE[:6], "-a", "claude", ANTHROPIC_API_KEY=secret)
    assert taken.returncode == 0, taken.stderr
    session = taken.stdout.strip()
    assert session in bench.run("sessions", "native", "-a", "claude").stdout
    (row,) = json.loads(bench.run("sessions", "list", "--json").stdout)
    assert (row["id"], row["agent"], row["native_id"], row["title"]) == (
        session, "claude", NATIVE, "@@keep@@ this one",
    )  # fmt: skip
    shown = bench.run("sessions", "show", session)
    assert shown.returncode == 0
    for words in (
        "@@keep@@ this one",
        "First.",
        "Write /project/new.txt",
        "Bash ls; exit 3",
        "Kept.",
    ):
        assert words in shown.stdout
    entries = [
        json.loads(line)["event"]
        for line in bench.run("sessions", "show", session, "--json").stdout.splitlines()
    ]
    assert entries[0] == {"type": "agent_ready", "native_id": NATIVE}
    assert entries[1] == {"type": "user_message", "text": "@@keep@@ this one", "how": "imported"}
    assert "First" in bench.run("sessions", "search", "first").stdout
    home = Path(bench.environment["TILLERMAN_HOME"])
    assert not [f for f in home.rglob("*") if f.is_file() and secret.encode() in f.read_bytes()]
    again = bench.run("sessions", "import", NATIVE, "-a", "claude")
    assert (again.returncode, again.stderr) == (
        2,
        f"error: this conversation is already session {session}\n"
        f"hint: `tillerman run --resume {session}` resumes it\n",
    )


def test_a_session_taken_over_is_resumed_by_the_agents_own_id(bench: Bench) -> None:
    keep_session(bench)
    body = 'pathlib.Path(__file__).with_suffix(".argv").write_text(json.dumps(sys.argv[1:]))'
    program = install(bench, "claude", body)
    session = bench.run("sessions", "import", NATIVE, "-a", "claude").stdout.strip()
    bench.run("run", "--resume", session, "go on")
    words = json.loads(program.with_suffix(".argv").read_text())
    assert f"--resume={NATIVE}" in words
    assert "--fork-session" not in words


def test_a_session_unknown_to_the_agent_is_not_found(bench: Bench) -> None:
    install(bench, "claude", CLAUDE)
    assert bench.run("sessions", "native", "-a", "claude").stdout == (
        "claude stores no sessions for this folder\n"
    )
    wrong = bench.run("sessions", "import", "nothing", "-a", "claude")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "error: claude stores no session 'nothing' for this folder\n"
        "hint: `tillerman sessions native -a claude` lists them\n",
    )
    assert bench.run("sessions", "create", "-a", "mock").stderr == (
        "error: mock does not support creating a session without a prompt\n"
        "hint: `tillerman agents mock` lists what it supports\n"
    )


def test_an_agent_makes_an_empty_session_that_is_resumed_by_its_id(bench: Bench) -> None:
    stand_in(bench)
    made = bench.run("sessions", "create", "-a", "cursor")
    assert made.returncode == 0, made.stderr
    (row,) = json.loads(bench.run("sessions", "list", "--json").stdout)
    assert (row["id"], row["agent"], row["status"]) == (made.stdout.strip(), "cursor", "new")
    assert re.fullmatch(r"[0-9a-f-]{36}", row["native_id"])
