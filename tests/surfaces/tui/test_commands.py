"""Slash commands, typed on a real screen with the embedded agent."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.cursor_stand_in import install_cursor
from tests.surfaces.conftest import Bench
from tests.surfaces.tui.desk import Desk, desk
from tillerman.surfaces.tui.commands import COMMANDS, is_command
from tillerman.surfaces.tui.conversation import block_styles
from tillerman.surfaces.tui.conversation.blocks import CommandBlock, ConversationBlock
from tillerman.surfaces.tui.dialogs.agent_picker import AgentPicker
from tillerman.surfaces.tui.dialogs.mcp_panel import McpPanel
from tillerman.surfaces.tui.dialogs.mode_picker import ModePicker
from tillerman.surfaces.tui.dialogs.model_picker import ModelPicker
from tillerman.surfaces.tui.dialogs.session_browser import SessionBrowser
from tillerman.surfaces.tui.dialogs.theme_picker import ThemePicker
from tillerman.surfaces.tui.terminal.rich_lines import RichLineRenderer

ECHO = Path(__file__).parents[2] / "agents" / "acp" / "acp_program.py"  # it repeats its prompt
TURNS: list[list[dict[str, Any]]] = [
    [
        {"write": "a.txt", "text": "one\ntwo\n"},
        {"say": "Here it is:\n\n```python\nprint('first')\n```\n\nand\n\n```\nlast\n```\nDone."},
    ],
    [{"say": "Nothing to do."}],
    [{"run": "printf 'x\\n' > b.txt"}, {"say": "By a command."}],
]
CLAUDE = """\
words = sys.argv[1:]
state = pathlib.Path(__file__).with_suffix(".state")
signed_in = state.exists()
if words == ["--version"]:
    print("2.1.325 (Claude Code)")
elif words == ["auth", "status"]:
    told = {"loggedIn": True, "authMethod": "claude.ai", "email": "ann\\x1b]0;x\\x07@example.org"}
    print(json.dumps(told if signed_in else {"loggedIn": False, "authMethod": "none"}))
    sys.exit(0 if signed_in else 1)
elif words[:2] == ["mcp", "list"]:
    print("docs: npx docs-server - \\u2714 Connected")
else:
    sys.exit(f"no such command: {words}")
"""


class Clerk(Desk):
    """A user who types commands and reads the answers."""

    async def command(self, line: str) -> str:
        """Runs it; returns the card with its result."""
        before = len(self._pieces)
        await self.say(line)
        await self.until(lambda: len(self._pieces) > before)
        await self.done()
        return self.cards()[-1]

    async def say(self, line: str) -> None:
        self.box.text = line
        await self.press("enter")

    async def done(self) -> None:
        await self.until(
            lambda: (
                not any(
                    worker.group == "commands" and worker.is_running for worker in self.app.workers
                )
            )
        )

    async def prompt(self, line: str) -> None:
        turns = len(self.pane.transcript.turns)
        await self.say(line)
        await self.rests(turns + 1)

    def cards(self, width: int = 120) -> list[str]:
        """The cards as rendered with enough room."""
        painter = RichLineRenderer()
        return [
            "\n".join(
                line.text.rstrip() for line in painter.lines(block_styles.draw(piece, width), width)
            )
            for piece in self._pieces
        ]

    @property
    def _pieces(self) -> list[ConversationBlock]:
        return [
            piece for piece in self.pane.outline.pieces if isinstance(piece.thing, CommandBlock)
        ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any agent of this machine."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "bin").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture
async def clerk(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Clerk]:
    (home / "tillerman").mkdir()
    echo = f'[agents.echo]\nacp = "{sys.executable} {ECHO} --acp"\n'
    (home / "tillerman" / "config.toml").write_text(f"# mine\n{echo}")
    async with desk(home, project, monkeypatch, TURNS) as found:
        assert found.pane.channel
        found.pane.channel.requested["approve"] = "auto"
        yield Clerk(found.app, found.pilot)


def install(home: Path, name: str, body: str) -> Path:
    program = home / "bin" / name
    program.write_text(f"#!{sys.executable} -I\nimport json, pathlib, signal, sys\n{body}")
    program.chmod(0o755)
    return program


# -- which line is one -----------------------------------------------------------------------------


def test_paths_and_the_agents_own_commands_are_prompts() -> None:
    assert is_command("/help") and is_command("/mode plan") and is_command("/nothing")
    assert not is_command("/usr/bin/env is broken")
    assert not is_command("/review this", ("review",)) and not is_command("/review", ("/review",))
    assert not is_command(" /help") and not is_command("what about /help")


async def test_a_typo_is_answered_with_a_suggestion_and_a_name_is_completed(
    clerk: Clerk,
) -> None:
    reported = await clerk.command("/modle mock-deep")
    assert "unknown command: /modle" in reported
    assert "did you mean /mode or /model?" in reported
    assert clerk.pane.channel and clerk.pane.channel.id is None
    reported = await clerk.command("/clear all")
    assert "/clear takes no arguments" in reported
    await clerk.write("/expo")
    await clerk.sees("export as markdown, html or jsonl")
    await clerk.press("tab")
    assert clerk.box.text == "/export "


async def test_the_agents_own_command_goes_to_the_agent(clerk: Clerk) -> None:
    clerk.pane.transcript.commands = ("review",)
    await clerk.prompt("/review it")
    assert clerk.pane.transcript.turns[0].prompt == "/review it"
    await clerk.prompt(" /cost")  # a space before it: not ours
    assert clerk.pane.transcript.turns[1].prompt == "/cost"
    assert clerk.cards() == []


async def test_help_lists_commands_and_keys_and_fits_a_small_screen(clerk: Clerk) -> None:
    reported = await clerk.command("/help")
    for name in COMMANDS:
        assert f"▌ {name}" in reported
    assert "ctrl+q" in reported.replace("^q", "ctrl+q") and "Cancel" in reported
    assert "…" not in reported
    one = await clerk.command("/help model")
    assert "/model [NAME]" in one and "switch model" in one
    assert "did you mean /diff?" in await clerk.command("/help dif")


async def test_a_long_answer_is_read_from_its_first_line(clerk: Clerk) -> None:
    await clerk.prompt("go")
    await clerk.command("/help")
    await clerk.until(lambda: "Commands and keys" in clerk.seen())
    assert "/login [AGENT]" in clerk.seen() and not clerk.pane.conversation.following
    await clerk.command("/cost")
    await clerk.until(lambda: "Usage" in clerk.seen())
    assert clerk.pane.conversation.following


# -- the agent -------------------------------------------------------------------------------------


async def test_status_shows_who_is_signed_in_or_what_to_run(clerk: Clerk, home: Path) -> None:
    assert "ready" in await clerk.command("/status")
    missing = await clerk.command("/status claude")
    assert "not installed" in missing and "npm install -g @anthropic-ai/claude-code" in missing
    program = install(home, "claude", CLAUDE)
    signed_out = await clerk.command("/status claude")
    assert "not signed in" in signed_out and "claude auth login" in signed_out
    assert "sign in here with /login claude" in signed_out
    program.with_suffix(".state").touch()
    signed_in = await clerk.command("/status claude")
    assert "signed in by browser as ann" in signed_in and "\x1b" not in signed_in
    everyone = await clerk.command("/status all")
    assert "SIGNED IN, OR NEXT STEP" in everyone and "▌ mock" in everyone
    assert "unknown agent: 'nobody'" in await clerk.command("/status nobody")


async def test_signing_in_shows_the_alternatives(clerk: Clerk, home: Path) -> None:
    unable = await clerk.command("/login mock")
    assert "mock does not support signing in by command" in unable
    missing = await clerk.command("/login claude")
    assert "npm install -g @anthropic-ai/claude-code" in missing
    install(home, "gemini", "print('0.61.0')")
    by_key = await clerk.command("/login gemini")
    assert "GEMINI_API_KEY" in by_key and "/status gemini" in by_key
    install(home, "claude", CLAUDE)
    screenless = await clerk.command("/login claude")  # a test's screen cannot be lent
    assert "the terminal cannot be handed" in screenless and "claude auth login" in screenless
    assert "opening browser" not in screenless


async def test_models_are_listed_and_one_is_chosen(clerk: Clerk) -> None:
    listed = await clerk.command("/models")
    assert "mock-deep" in listed and "64.0k" in listed and "Mock Deep (thinking)" in listed
    assert "applies from the first prompt" in await clerk.command("/model mock-deep")
    await clerk.prompt("go")
    assert clerk.pane.transcript.model == "mock-deep"
    await clerk.command("/model mock-quick")
    await clerk.until(lambda: clerk.pane.transcript.model == "mock-quick")
    assert "has no spaces" in await clerk.command("/model a b")
    assert "does not support listing" in await clerk.command("/models replay")


async def test_a_model_for_an_idle_session_applies_when_it_continues(clerk: Clerk) -> None:
    await clerk.prompt("go")
    assert clerk.pane.channel
    session = clerk.pane.channel.id
    await clerk.say("/clear")
    await clerk.until(lambda: clerk.pane.channel and clerk.pane.channel.id is None)
    await clerk.done()
    first = clerk.pane
    await clerk.say(f"/resume {session}")
    await clerk.until(lambda: clerk.pane is not first)
    assert "applies from the next prompt" in await clerk.command("/model mock-deep")
    assert clerk.pane.standing().model == "mock-deep"
    await clerk.prompt("go on")
    assert clerk.pane.transcript.model == "mock-deep"
    await clerk.command("/model mock-quick")
    await clerk.until(lambda: clerk.pane.standing().model == "mock-quick")


async def test_a_mode_applies_at_once(clerk: Clerk) -> None:
    assert "known: agent, plan, ask" in await clerk.command("/mode fast")
    assert "did you mean plan?" in await clerk.command("/mode plam")
    assert "Mode: plan" in await clerk.command("/mode plan")
    await clerk.prompt("go")
    assert clerk.pane.transcript.mode == "plan" or clerk.pane.standing().mode == "plan"
    await clerk.command("/mode agent")
    await clerk.until(lambda: clerk.pane.transcript.mode == "agent")


async def test_before_the_first_prompt_another_agent_starts(clerk: Clerk) -> None:
    missing = await clerk.command("/agent claude")
    assert "not installed" in missing and "npm install" in missing
    assert "unknown agent: 'ecco'" in await clerk.command("/agent ecco")
    assert "ready" in await clerk.command("/agent echo")
    await clerk.prompt("hello")
    assert clerk.pane.transcript.agent == "echo"


async def test_later_another_agent_continues_the_conversation(clerk: Clerk) -> None:
    await clerk.prompt("go")
    reported = await clerk.command("/agent echo")
    assert "summary of what mock did" in reported
    await clerk.prompt("now you")
    turn = clerk.pane.transcript.turns[-1]
    message = "".join(getattr(block, "text", "") for block in turn.blocks)
    assert turn.agent == "echo" and "a.txt" in message and "now you" in message
    assert clerk.pane.channel and clerk.pane.channel.row and clerk.pane.channel.row.agent == "echo"
    assert "already uses echo" in await clerk.command("/agent echo")
    await clerk.prompt("and on")
    assert clerk.pane.transcript.turns[-1].agent == "echo"


async def test_a_session_is_not_handed_over_in_mid_turn(clerk: Clerk) -> None:
    await clerk.say('[{"say": "busy"}, {"hang": true}]')
    await clerk.until(lambda: clerk.pane.transcript.busy)
    assert "The agent is still working" in await clerk.command("/agent echo")
    assert "Esc cancels the turn" in await clerk.command("/clear")
    await clerk.press("escape")
    await clerk.rests(1)
    assert "summary of what mock did" in await clerk.command("/agent echo")


async def test_servers_are_listed_and_switched_by_the_agent(clerk: Clerk, home: Path) -> None:
    assert "mock does not support listing MCP servers" in await clerk.command("/mcp list")
    assert "did you mean enable?" in await clerk.command("/mcp enabel docs")
    assert "/mcp enable NAME" in await clerk.command("/mcp enable")
    install(home, "claude", CLAUDE)
    await clerk.command("/agent claude")
    listed = await clerk.command("/mcp list")
    assert "docs" in listed and "npx docs-server" in listed
    assert "does not support disabling MCP servers" in await clerk.command("/mcp disable docs")
    install_cursor(home / "bin", home)
    (home / ".cursor").mkdir(exist_ok=True)
    servers = {"docs": {"command": "npx", "tools": {"search": ["query"]}}}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    await clerk.command("/agent cursor")
    assert "cursor uses the MCP server docs" in await clerk.command("/mcp enable docs")
    assert "search" in await clerk.command("/mcp tools docs")
    assert "cursor does not use the MCP server docs" in await clerk.command("/mcp disable docs")


# -- sessions --------------------------------------------------------------------------------------


async def test_a_new_session_has_a_tab_of_its_own(clerk: Clerk) -> None:
    await clerk.prompt("go")
    first = clerk.pane
    assert "unknown agent" in await clerk.command("/new nobody")
    await clerk.say("/new echo")
    await clerk.until(lambda: clerk.pane is not first)
    assert clerk.pane.standing().agent == "echo"
    assert first.channel and first.channel.id


async def test_a_cleared_tab_starts_over_and_the_old_session_stays(clerk: Clerk) -> None:
    await clerk.prompt("go")
    pane = clerk.pane
    assert pane.channel
    old = pane.channel.id
    await clerk.say("/clear")
    await clerk.until(lambda: bool(clerk.cards()))
    assert f"/resume {old}" in clerk.cards()[-1]
    assert clerk.pane is pane and not pane.transcript.turns
    await clerk.prompt("again")
    assert pane.channel.id and pane.channel.id != old
    assert [turn.number for turn in pane.transcript.turns] == [1]
    await clerk.say(f"/resume {old}")
    await clerk.until(lambda: clerk.pane is not pane)
    await clerk.until(lambda: len(clerk.pane.transcript.turns) == 1)
    assert "no session matches 'ffff'" in await clerk.command("/resume ffff")


async def test_a_copy_diverges(clerk: Clerk) -> None:
    assert "the session has not started" in await clerk.command("/fork")
    await clerk.prompt("go")
    first = clerk.pane
    await clerk.say("/fork")
    await clerk.until(lambda: clerk.pane is not first and clerk.cards())
    assert first.channel and f"of {first.channel.id}" in clerk.cards()[-1]
    assert clerk.pane.channel and clerk.pane.channel.id != first.channel.id
    assert len(clerk.pane.transcript.turns) == 1


async def test_sessions_are_found_by_their_text(clerk: Clerk) -> None:
    await clerk.prompt("paint the bikeshed")
    found = await clerk.command("/sessions bikeshed")
    assert clerk.pane.channel and clerk.pane.channel.id
    assert clerk.pane.channel.id in found and "paint the bikeshed" in found
    assert "nothing found" in await clerk.command("/sessions zeppelin")


async def test_a_session_is_written_to_a_file(clerk: Clerk, project: Path) -> None:
    assert "the session has not started" in await clerk.command("/export")
    await clerk.prompt("go")
    assert clerk.pane.channel
    await clerk.command("/export")
    assert "Here it is" in (project / f"session-{clerk.pane.channel.id}.md").read_text()
    await clerk.command("/export talk.html")
    assert (project / "talk.html").read_text().startswith("<!")
    await clerk.command("/export 'my talk' jsonl")
    assert json.loads((project / "my talk").read_text().splitlines()[0])["seq"] == 1
    assert "already exists" in await clerk.command("/export talk.html")
    assert "cannot write" in await clerk.command("/export no/where.md")
    assert "one file and one format" in await clerk.command("/export a b html")
    assert "No closing quotation" in await clerk.command("/export 'a")


# -- what it came to -------------------------------------------------------------------------------


async def test_the_changes_of_a_turn_are_shown(clerk: Clerk) -> None:
    assert "there are no turns yet" in await clerk.command("/diff")
    await clerk.prompt("go")
    reported = await clerk.command("/diff")
    assert "1 file changed (+2 −0) in turn 1" in reported and "A a.txt  +2 −0" in reported
    assert "two" in reported
    await clerk.prompt("and now")
    assert "No files changed in turn 2" in await clerk.command("/diff")
    assert "A a.txt" in await clerk.command("/diff 1")
    await clerk.prompt("by command")
    by_command = await clerk.command("/diff")
    assert "A b.txt  +1 −0" in by_command
    everything = await clerk.command("/diff all")
    assert "a.txt" in everything and "b.txt" in everything and "in 3 turns" in everything
    assert "use 1 to 3, or all" in await clerk.command("/diff 9")


async def test_the_cost_of_each_turn_and_of_all(clerk: Clerk) -> None:
    assert "no usage reported" in await clerk.command("/cost")
    await clerk.prompt("go")
    await clerk.prompt("go on")
    lines = (await clerk.command("/cost")).splitlines()
    assert "TURN" in lines[1] and "COST" in lines[1]
    assert lines[2].split()[1:3] == ["1", "mock"] and lines[2].endswith("go")
    assert lines[4].split()[1] == "all" and "$" in lines[4]


async def test_the_last_message_or_its_code_is_copied(clerk: Clerk) -> None:
    assert "not written anything yet" in await clerk.command("/copy")
    await clerk.prompt("go")
    await clerk.command("/copy")
    assert clerk.app.clipboard.startswith("Here it is:") and clerk.app.clipboard.endswith("Done.")
    await clerk.command("/copy code")
    assert clerk.app.clipboard == "last\n"
    assert "/copy: unknown argument 'all'" in await clerk.command("/copy all")
    await clerk.prompt("more")
    await clerk.command("/copy code")
    assert clerk.app.clipboard == "last\n"


async def test_rules_are_listed_and_asked(clerk: Clerk) -> None:
    reported = await clerk.command("/policy")
    assert "approve: auto; no other rules" in reported
    denied = await clerk.command("/policy Bash rm -rf /")
    assert "deny" in denied and "rm -rf /" in denied
    assert "did you mean Bash?" in await clerk.command("/policy shell ls")
    assert "not JSON" in await clerk.command("/policy Write a.txt")
    assert "allow" in await clerk.command('/policy Write {"file_path": "a.txt"}')


async def test_rules_of_the_user_are_shown(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "tillerman").mkdir()
    rule = '[[rules]]\nname = "no-push"\ndeny = true\ncommand = ["git push *"]\n'
    (home / "tillerman" / "config.toml").write_text(rule)
    async with desk(home, project, monkeypatch) as found:
        clerk = Clerk(found.app, found.pilot)
        reported = await clerk.command("/policy")
        assert "no-push" in reported and "git push" in reported


# -- the screen ------------------------------------------------------------------------------------


async def test_a_theme_is_applied_and_stored(clerk: Clerk, home: Path) -> None:
    assert "unknown theme 'plaid'" in await clerk.command("/theme plaid")
    assert "Theme: textual-light" in await clerk.command("/theme textual-light")
    assert clerk.app.theme == "textual-light"
    text = (home / "tillerman" / "config.toml").read_text()
    assert text.startswith("# mine\n")
    assert tomllib.loads(text)["screen"] == {"theme": "textual-light"}


async def test_without_an_argument_there_is_a_list_to_choose_from(clerk: Clerk) -> None:
    base = clerk.app.screen
    for name, kind in {
        "/model": ModelPicker,
        "/agent": AgentPicker,
        "/mode": ModePicker,
        "/sessions": SessionBrowser,
        "/resume": SessionBrowser,
        "/theme": ThemePicker,
        "/mcp": McpPanel,
    }.items():
        await clerk.say(name)
        await clerk.until(lambda: clerk.app.screen is not base)
        assert isinstance(clerk.app.screen, kind), name
        await clerk.press("escape")
        await clerk.until(lambda: clerk.app.screen is base)
        await clerk.done()


async def test_quitting_leaves(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(home, project, monkeypatch) as found:
        await Clerk(found.app, found.pilot).say("/quit")
        await found.until(lambda: found.app._exit)


# -- the terminal is lent --------------------------------------------------------------------------

SIGNS_IN = """\
words = sys.argv[1:]
state = pathlib.Path(__file__).with_suffix(".state")
if words == ["--version"]:
    print("2.1.325 (Claude Code)")
elif words == ["auth", "status"]:
    told = {"loggedIn": True, "authMethod": "claude.ai", "email": "ann@example.org"}
    print(json.dumps(told if state.exists() else {"loggedIn": False, "authMethod": "none"}))
    sys.exit(0 if state.exists() else 1)
elif words == ["auth", "login"]:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    print("type the code:", end=" ", flush=True)
    code = input()
    if code == "letmein":
        state.touch()
    sys.exit(0 if code else 3)
elif words == ["auth", "logout"]:
    state.unlink(missing_ok=True)
"""


def test_a_file_that_cannot_be_opened_is_reported_without_a_screen(bench: Bench) -> None:
    terminal = bench.terminal("tui", "nosuch")
    assert terminal.end() == 2
    assert "error: no session matches 'nosuch'\n" in terminal.text
    assert "Traceback" not in terminal.text


def test_signing_in_uses_the_real_terminal_and_the_screen_is_restored(bench: Bench) -> None:
    (bench.home / "bin").mkdir()
    install(bench.home, "claude", SIGNS_IN)
    bench.environment["PATH"] = f"{bench.home / 'bin'}:/usr/bin:/bin"
    terminal = bench.terminal("tui", "-a", "claude")
    terminal.wait_for("What should I work on?")
    terminal.press("/login \r")
    at = terminal.wait_for("running `claude auth login`; it may open your browser")
    terminal.wait_for("type the code:", at)
    terminal.press("wrong\r")
    at = terminal.wait_for("claude is still not signed in", at)
    terminal.press("/login \r")
    at = terminal.wait_for("type the code:", at)
    terminal.interrupt()
    at = terminal.wait_for("interrupted", at)
    terminal.press("/login \r")
    at = terminal.wait_for("type the code:", at)
    terminal.press("\r")
    at = terminal.wait_for("`claude auth login` exited with 3", at)
    terminal.press("/login \r")
    at = terminal.wait_for("type the code:", at)
    terminal.press("letmein\r")
    at = terminal.wait_for("claude is signed in by browser as ann@example.org", at)
    terminal.press("/logout \r")
    at = terminal.wait_for("claude is signed out", at)
    terminal.press("/quit\r")
    assert terminal.end() == 0
    assert terminal.modes == terminal.before
