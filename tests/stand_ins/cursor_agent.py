"""A stand-in for `cursor-agent`: its command line, its files, its signals, without its model.

It implements recorded behaviour of the real one, and refuses everything else. `cursor_stage`
describes how a prompt selects what the turn does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from tests.stand_ins.cursor_home import EMAIL, Home
from tests.stand_ins.cursor_hooks import Hooks
from tests.stand_ins.cursor_stage import RECORDINGS, Stage
from tests.stand_ins.cursor_tools import Tools

FLAGS = frozenset({
    "-p", "--print", "--stream-partial-output", "-f", "--force", "--yolo", "--approve-mcps",
    "--trust", "--plan", "--list-models", "-v", "--version", "--continue", "--auto-review",
    "--disable-auto-update", "--skip-worktree-setup", "-k",
})  # fmt: skip
VALUES = frozenset({
    "--api-key", "-H", "--header", "--output-format", "--resume", "--model", "--mode", "--sandbox",
    "--workspace", "--add-dir", "--plugin-dir", "-w", "--worktree", "--worktree-base", "--image",
    "--auth-token", "-e", "--endpoint", "--agent-endpoint", "--exclude-tools", "--allowed-tools",
    "--new-session-id", "--format",
})  # fmt: skip
MANY = frozenset({"-H", "--header", "--add-dir", "--plugin-dir"})
NOT_SIGNED_IN = (
    "Error: Authentication required. Please run 'agent login' first, or set CURSOR_API_KEY"
    " environment variable."
)
NO_MODELS = (
    "Error: Authentication required. Run 'agent login', pass --api-key/--auth-token, or set"
    " CURSOR_API_KEY/CURSOR_AUTH_TOKEN."
)
RAW_MODE = (
    "  ERROR Raw mode is not supported on the current process.stdin, which Ink uses\n"
    "        as input stream by default."
)
VERSION = os.environ["CURSOR_STAND_IN_VERSION"]
NO_SERVERS = "No MCP servers configured (expected in .cursor/mcp.json or ~/.cursor/mcp.json)"


class Options:
    def __init__(self, argv: list[str]) -> None:
        self.words: list[str] = []
        self._set: set[str] = set()
        self._values: dict[str, list[str]] = {}
        rest = iter(argv)
        for word in rest:
            flag, given, value = word.partition("=")
            if word == "--":
                self.words += rest
            elif word in FLAGS:
                self._set.add(word)
            elif flag in VALUES:
                self._values.setdefault(flag, []).append(value if given else next(rest, ""))
            elif word.startswith("-"):
                fail(f"error: unknown option '{word}'")
            else:
                self.words.append(word)

    def has(self, *flags: str) -> bool:
        return any(flag in self._set for flag in flags)

    def value(self, flag: str, otherwise: str = "") -> str:
        return self._values.get(flag, [otherwise])[-1]

    def values(self, flag: str) -> list[str]:
        return self._values.get(flag, [])


def fail(message: str, code: int = 1) -> NoReturn:
    print(message, file=sys.stderr, flush=True)
    os._exit(code)


def recorded(case: str) -> str:
    lines = (RECORDINGS / "commands.jsonl").read_text().splitlines()
    return next(str(one["stdout"]) for one in map(json.loads, lines) if one["case"] == case)


def main(argv: list[str]) -> int:
    options = Options(argv)
    folder = Path(options.value("--workspace", ".")).absolute()
    if not folder.is_dir():
        fail(f"Error: Workspace directory does not exist: {folder}")
    home = Home(folder)
    if options.has("-v", "--version"):
        print(VERSION)
        return 0
    if options.has("-p", "--print"):
        return turn(options, home)
    if options.has("--list-models"):
        return models(home)
    return command(options, home)


# -- commands --------------------------------------------------------------------------------------


def command(options: Options, home: Home) -> int:
    as_json = options.value("--format") == "json"
    match options.words:
        case ["status" | "whoami"]:
            signed_in = home.key_source == "login"
            case = "status json" if as_json else "status"
            unsigned: dict[str, Any] = {"status": "unauthenticated", "isAuthenticated": False}
            unsigned |= {"hasAccessToken": False, "hasRefreshToken": False}
            message = (
                json.dumps(unsigned | {"message": "Not logged in"}) if as_json else "Not logged in"
            )
            print(recorded(case) if signed_in else message + "\n", end="")
        case ["about"]:
            print(recorded("about json" if as_json else "about"), end="")
        case ["models"]:
            return models(home)
        case ["create-chat"]:
            print(home.new_chat())
        case ["ls"]:
            print(RAW_MODE, file=sys.stderr)
        case ["resume"]:
            print("No previous chats found.")
        case ["login"]:
            home.login.parent.mkdir(parents=True, exist_ok=True)
            home.login.write_text("{}")
            print(f"✓ Logged in as {EMAIL}")
        case ["logout"]:
            home.login.unlink(missing_ok=True)
            print("Logged out successfully.")
        case ["mcp", *words]:
            return servers(words, home)
        case ["acp"]:
            from tests.stand_ins import cursor_acp

            return cursor_acp.serve(home)
        case _:
            fail(f"error: unknown command '{' '.join(options.words)}'")
    return 0


def models(home: Home) -> int:
    if home.key_source is None:
        fail(NO_MODELS)
    print(recorded("models"), end="")
    return 0


def servers(words: list[str], home: Home) -> int:
    found = home.servers()
    match words:
        case ["list"]:
            lines = [f"{name}: {server['status']}" for name, server in found.items()]
            print("\n".join(lines or [NO_SERVERS]))
        case ["list-tools", name] if name in found:
            tools = found[name].get("tools", {})
            print(f"Tools for {name} ({len(tools)}):")
            for tool, arguments in tools.items():
                print(f"- {tool} ({', '.join(arguments)})")
        case ["enable", name] if name in found:
            home.switch(name, "ready")
            print(f"✓ Enabled and approved MCP server: {name}")
        case ["disable", name] if name in found:
            home.switch(name, "disabled")
            print(f"✓ Disabled MCP server: {name}")
        case [_, name]:
            fail(f"Error: MCP server not found: {name}")
        case _:
            fail(f"error: unknown command 'mcp {' '.join(words)}'")
    return 0


# -- a turn ----------------------------------------------------------------------------------------


def turn(options: Options, home: Home) -> int:
    signal.signal(signal.SIGINT, interrupted)
    if "wrong" in os.environ.get("CURSOR_API_KEY", ""):
        fail(
            "⚠ Warning: The provided API key is invalid.\n"
            "The API key was loaded from the CURSOR_API_KEY environment variable."
        )
    if home.key_source is None:
        fail(NOT_SIGNED_IN)
    if not options.has("--trust", "-f", "--force", "--yolo"):
        lines = (RECORDINGS / "process_failures.jsonl").read_text().splitlines()
        fail(json.loads(lines[0])["stderr"].rstrip("\n"))
    model, title = chosen_model(options, home)
    prompt = " ".join(options.words) or sys.stdin.read()
    chat = options.value("--resume") or home.new_chat()
    hooks = Hooks(
        project=home.cwd,
        user=home.user,
        plugins=[Path(folder) for folder in options.values("--plugin-dir")],
        common={
            "conversation_id": chat,
            "generation_id": chat,
            "model": model,
            "session_id": chat,
            "cursor_version": VERSION,
            "workspace_roots": [str(home.cwd)],
            "user_email": EMAIL,
            "transcript_path": None,
        },
    )
    mode = "plan" if options.has("--plan") else options.value("--mode", "agent")
    excluded = set(filter(None, options.value("--exclude-tools").split(",")))
    stage = Stage(
        home,
        Tools(
            home,
            hooks,
            mode=mode,
            excluded=excluded,
            approve_mcps=options.has("--approve-mcps"),
            sandbox=options.value("--sandbox") == "enabled",
        ),
        hooks,
        chat=chat,
        model=title,
        format=options.value("--output-format", "text"),
        partial=options.has("--stream-partial-output"),
    )
    began = time.monotonic()
    here = {"is_background_agent": False}
    replies = hooks.report("sessionStart", **here, composer_mode=mode)
    code = stage.play(prompt, [reply.get("additional_context", "") for reply in replies])
    status = "error" if code else "completed"
    took = int((time.monotonic() - began) * 1000)
    why = {"error_message": "the turn failed"} if code else {}
    hooks.report("sessionEnd", reason=status, final_status=status, duration_ms=took, **here, **why)
    return code


def chosen_model(options: Options, home: Home) -> tuple[str, str]:
    saved = home.config().get("model", {}).get("modelId", "auto")
    model = options.value("--model", saved)
    if options.value("--model"):
        home.save_model(model)
    lines = [line.split(" - ", 1) for line in recorded("models").splitlines() if " - " in line]
    titles = {id: title.split("  ")[0] for id, title in lines}
    known = model.partition("[")[0]
    if known not in titles:
        fail(f"Cannot use this model: {model}. Available models: {', '.join(titles)}")
    return model, titles[known]


def interrupted(*_: object) -> None:
    """Processes that its tools started are left to the supervisor."""
    os.write(2, b"Aborting operation...\n")
    os._exit(130)
