"""A tour of the commands and pickers of the terminal interface; the scenes are of `screen_tour`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.stand_ins.screen_sitting import Cast, Found, Sitting, sitting, status_line, works
from tillerman.core.events import SettingsChanged, TurnEnded
from tillerman.paths import find_paths

# -- slash commands --------------------------------------------------------------------------------


def command(cast: Cast, folder: Path) -> None:
    """Every slash command, with and without arguments, and an unknown one."""
    with sitting(cast, folder) as who:
        _before_a_session(who)
        who.command("/clear")
        who.play("write", "[y] allow")
        who.press("y")
        who.over(1)
        who.play("hello")
        who.over(2, "Hello there.")
        _of_the_session(who)
        _of_the_agent(who)
        _of_sessions(who)
        who.send("/quit")
        assert who.terminal.ended() == 0


def _before_a_session(who: Sitting) -> None:
    agent = who.cast.agent
    who.command("/nosuch", "unknown command: /nosuch", "/help lists them.")
    who.command("/modell", "did you mean /model or /models?")
    who.command("/quit now", "/quit takes no arguments")
    who.command("/help fork", "/fork", "copy this session")
    who.command("/help", "Commands and keys", "/login [AGENT]")
    who.command("/diff", "there are no turns yet")
    who.command("/cost", "no usage reported yet")
    who.command("/copy", "the agent has not written anything yet")
    who.command("/export", "the session has not started")
    who.command("/fork", "the session has not started")
    who.command("/policy", "Rules", "approve: ask")
    who.command("/policy Bash rm -rf build", "/policy Bash rm -rf build", "ask")
    who.command(f"/agent {agent}", f"Agent: {agent}", "ready; it starts")
    who.command("/agent nobody", "nobody")


def _of_the_session(who: Sitting) -> None:
    project = who.cast.project
    who.command("/diff", "No files changed in turn 2")
    who.command("/diff 1", "in turn 1", "new.txt", "moon")
    who.command("/diff all", "in 2 turns", "new.txt")
    who.command("/diff 9", "unknown turn '9'", "use 1 to 2, or all")
    who.command("/cost", "Usage", "TURN", "all")
    who.command("/copy", "Copied", "the last message, ")
    who.command("/copy code", "the last code block, 1 line")
    who.command("/copy that", "/copy: unknown argument 'that'")
    who.command("/export notes.html", "notes.html (")
    assert "Hello there." in (project / "notes.html").read_text()
    who.command("/export notes.html", "already exists", "choose another file name")
    who.command("/export out jsonl", ", jsonl)")
    assert json.loads((project / "out").read_text().splitlines()[0])
    who.command("/theme nosuch", "unknown theme 'nosuch'")
    who.command("/theme nord", "Theme: nord", "saved in your config")
    who.send("/theme")
    who.sees("Themes", "type to filter", "● nord")
    who.press("Escape")
    who.loses("type to filter")


def _of_the_agent(who: Sitting) -> None:
    cast, agent = who.cast, who.cast.agent
    who.command("/status", f"Status of {agent}", "ready")
    who.command("/status all", "Status of all agents", "AGENT", "codex")
    who.command("/status nobody", "nobody")
    who.command("/models", f"Models of {agent}", cast.model, "select one with /model NAME")
    who.command(f"/models {agent}", cast.model)
    who.send("/model")
    who.sees(f"Models of {agent}", "type to filter")
    who.press("Escape")
    who.loses("type to filter")
    who.command(f"/model {cast.model}", f"Model: {cast.model}", "applies from the next prompt")
    who.until(lambda screen: cast.model in status_line(screen))
    who.command("/model two words", "a model name has no spaces")
    who.send("/mode")
    who.sees("─ Mode ", "reads and plans")
    who.press("Escape")
    who.loses("─ Mode ")
    who.command("/mode nosuch", "unknown mode 'nosuch'")
    who.send("/agent")
    who.sees("Agents", "type to filter", f"● {agent}")
    who.press("Escape")
    who.loses("type to filter")
    who.command("/mcp nosuch", "/mcp: unknown argument 'nosuch'")
    who.command("/mcp enable", "usage: /mcp enable NAME")
    _signing(who)


def _signing(who: Sitting) -> None:
    cast = who.cast
    who.command("/login nobody", "nobody")
    if cast.runs_login:
        who.command("/login", f"running `{cast.runs_login}`; it may open your browser")
        who.press("C-c")
        who.sees("interrupted")
    else:
        who.command("/login", cast.login)
    who.command("/logout", cast.logout)


def _of_sessions(who: Sitting) -> None:
    first = who.sessions()[0].id
    who.command("/sessions Hello", "Sessions with “Hello”", first)
    who.command("/sessions zebra", "nothing found")
    who.send("/sessions")
    who.sees("Sessions of ", "/ to search all messages")
    who.press("Escape")
    who.loses("/ to search all messages")
    who.command("/resume nosuch", "/sessions lists all sessions")
    who.send("/resume")
    who.sees("Sessions of ")
    who.press("Escape")
    who.loses("/ to search all messages")
    who.command("/fork", "Copied session", f"copy of {first}, which is unchanged")
    copy = who.sessions()[0].id
    assert copy != first
    who.command("/clear", "New session", f"the previous session is saved: /resume {copy}")
    who.loses("Copied session")
    who.command("/new", "3 new session")
    who.command(f"/new {who.cast.agent}", "4 new session")
    who.command(f"/resume {copy}", "Hello there.")
    who.loses("4 new session")  # it was empty
    who.command(f"/resume {first}")
    who.until(lambda screen: first in status_line(screen))  # it has a tab already


# -- pickers, panels and tabs ----------------------------------------------------------------------


def choose(cast: Cast, folder: Path) -> None:
    """What opens by a key: pickers, the palette, tabs, the session browser, MCP, next step."""
    _repository(cast)
    with sitting(cast, folder) as who:
        _next_step(who)
        who.play("hello")
        who.over(1, "Hello there.")
        _pickers(who)
        _servers(who)
        _tabs(who)
        _browser(who)
        _leaving(who)


def _repository(cast: Cast) -> None:
    """On `main`, with an uncommitted file."""
    git = ["git", "-C", str(cast.project), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (cast.project / "kept.txt").write_text("kept\n")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, env={**cast.environment})
    (cast.project / "kept.txt").write_text("changed\n")


def _next_step(who: Sitting) -> None:
    who.sees("› main › DIRTY", "[Commit & Push]")
    who.press("F2")
    who.sees("· main ─", " n  cancel")
    who.press("n")
    who.loses(" n  cancel")
    assert not who.entries()


def _pickers(who: Sitting) -> None:
    cast = who.cast
    who.press("C-g")
    who.sees("Agents", f"● {cast.agent}")
    who.type("codex-e")
    who.until(lambda screen: "codex-exec" in screen and f"● {cast.agent}" not in screen)
    who.press("Escape")
    who.loses("type to filter", "Agents ─")
    who.press("C-o")
    who.sees(f"Models of {cast.agent} ─", cast.model)
    who.type(cast.model)
    who.until(lambda screen: screen.count(cast.model) > 1)
    who.press("Enter")
    who.sees(f"Model: {cast.model}", "applies from the next prompt")
    who.until(lambda screen: cast.model in status_line(screen))
    who.press("F5")
    who.sees("─ Mode ", "● agent")
    who.press("Down", "Enter")
    who.sees("Mode: plan")
    who.until(lambda screen: "plan" in status_line(screen))
    who.press("F5")
    who.sees("─ Mode ", "● plan")
    who.press("Up", "Enter")
    who.sees("Mode: agent")
    who.until(lambda screen: "plan" not in status_line(screen))
    who.press("F8")
    who.sees("─ Themes ", "type to filter")
    who.type("gruvb")
    who.until(lambda screen: "gruvbox" in screen and "nord" not in screen)
    who.press("Enter")
    who.loses("─ Themes ")
    config = find_paths(cast.environment).config_file
    who.until(lambda _: 'theme = "gruvbox"' in config.read_text() if config.exists() else False)
    settings = [one.model for one in who.all(SettingsChanged) if one.model]
    assert settings[-1] == cast.model


def _servers(who: Sitting) -> None:
    agent, server = who.cast.agent, who.cast.server
    who.press("F4")
    who.sees(f"MCP servers of {agent} ─")
    if server is None:
        who.sees("does not support")
        who.press("Escape")
        who.loses(f"MCP servers of {agent} ─")
        return
    who.sees(server)
    who.press("Enter")
    who.sees(who.cast.tools)
    who.press("d")
    who.sees(f"{agent} does not use {server}" if who.cast.switches else "does not support")
    who.press("e")
    who.sees(f"{agent} uses {server}" if who.cast.switches else "does not support")
    if not who.cast.switches:  # it asks again by itself
        who.press("r")
        who.loses("does not support", "querying …")
        who.sees(server)
    who.press("Escape")
    who.loses(f"MCP servers of {agent} ─")
    who.command("/mcp list", server)


def _tabs(who: Sitting) -> None:
    first = who.sessions()[0].id
    who.press("C-t")
    who.sees("2 new session")
    who.until(lambda screen: first not in status_line(screen))
    who.write("some words")
    who.press("C-w")  # one word, and not the tab
    who.boxed("some")
    who.press("C-PPage")
    who.until(lambda screen: first in status_line(screen))
    who.boxed("")
    who.press("C-NPage")
    who.boxed("some")
    who.press("M-1")
    who.until(lambda screen: first in status_line(screen))
    who.press("M-2")
    who.boxed("some")
    who.erase()
    who.press("C-w")
    who.loses("2 new session")
    who.until(lambda screen: first in status_line(screen))
    who.press("C-p")
    who.sees("Search for commands")
    who.type("new tab")
    who.sees("start a new session in a new tab")
    who.press("Enter")
    who.sees("2 new session")
    who.press("C-w")
    who.loses("2 new session")


def _browser(who: Sitting) -> None:
    project = who.cast.project
    both = r"Sessions of (.*\n)+.*Renamed by hand(.*\n)+.*Renamed by hand +here"  # the copy first
    (first,) = who.sessions()
    who.press("C-l")
    who.sees("Sessions of ", "here")
    who.press("d")
    who.sees("it is open in a tab: close the tab first")
    who.press("r")
    who.sees("title: ")
    who.press("C-u")
    who.type("Renamed by hand")
    who.press("Enter")
    who.until(Found(r"Renamed by hand +here"))
    assert who.sessions()[0].title == "Renamed by hand"
    who.press("e")
    who.sees("export as markdown, html, jsonl: ")
    who.press("Enter")
    who.sees(f"session-{first.id}.md")
    assert "Hello there." in (project / f"session-{first.id}.md").read_text()
    who.press("/")
    who.type("zebra")
    who.sees("nothing found")
    who.press("Escape")
    who.sees("Renamed by hand")
    who.press("/")
    who.type("hello there")
    who.sees("hello there", "Hello there")
    who.press("Escape")
    who.sees("/ to search all messages")
    who.press("a")
    who.sees("Sessions of all folders", "project › Renamed")
    who.press("f")
    who.loses("Sessions of all folders")
    who.sees("2 ")
    copy = who.sessions()[0]
    assert copy.id != first.id
    who.until(lambda screen: copy.id in status_line(screen))
    who.press("C-w")
    who.until(lambda screen: first.id in status_line(screen))
    who.press("C-l")
    who.until(Found(both))
    who.press("Enter")  # the newest is the copy
    who.until(lambda screen: copy.id in status_line(screen))
    who.press("C-w")
    who.until(lambda screen: first.id in status_line(screen))
    who.press("C-l")
    who.until(Found(both))
    who.press("d")
    who.sees("y or n:")
    who.type("n")
    who.press("Enter")
    who.sees("nothing was deleted")
    who.press("d")
    who.sees("y or n:")
    who.type("y")
    who.press("Enter")
    who.sees(f"deleted {copy.id}")
    assert [row.id for row in who.sessions()] == [first.id]
    who.press("Escape")
    who.loses("Sessions of ")


def _leaving(who: Sitting) -> None:
    who.play("wait", "[y] allow")
    who.press("y")
    who.until(works)
    who.press("C-w")
    who.sees("Close the tab?", "cancel and close")
    who.press("n")
    who.loses("Close the tab?")
    who.press("F3")
    who.sees("The branch has no known pull request.")
    who.press("C-q")
    who.sees("Quit?", "The agent is still working", "cancel and quit")
    who.press("n")
    who.loses("Quit?")
    who.press("C-q")
    who.sees("Quit?")
    who.press("y")
    assert who.terminal.ended() == 0
    assert who.all(TurnEnded)[-1].reason == "cancelled"
