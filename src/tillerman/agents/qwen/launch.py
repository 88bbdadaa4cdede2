"""Qwen Code's agent row, command lines and environment variables, for both transports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.core.agent import Mode, SecretFile, SessionSpec, Word
from tillerman.core.wire import Launch

ROW = AcpAgentRow(
    name="qwen",
    command=("qwen", "--acp"),
    title="Qwen Code",
    install="npm install -g @qwen-code/qwen-code",
    login="set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL, or run `qwen` and use /auth",
    variables=("OPENAI_*", "QWEN_*", "DASHSCOPE_*", "BAILIAN_*", "OPENROUTER_*", "GEMINI_API_KEY"),
    tested=("0.15.10", "0.24.4"),
    can=frozenset({"folders", "tools", "questions", "background"}),
    asks=frozenset({"read", "write", "shell", "network", "mcp"}),
    cannot=frozenset({"effort"}),
    model_flag="--model",
    folder_flag="--include-directories",
    model_stays=True,
    modes={"plan": "plan", "ask": "default"},
    tool_name="_meta.toolName",
    parent="_meta.parentToolCallId",
    ignores=(
        "craft/drainMidTurnQueue",
        "_qwencode/start_turn",
        "qwen/notify/session/mode-update",
        "qwen/notify/session/prompt-suggestion",
    ),
    turn_over="_qwencode/end_turn",
    stops=True,
    drops_images=True,
    tools={
        "display_image": "Read",
        "exec": "Bash",
        "get_goal": "Goal",
        "list_agents": "ListAgents",
        "lsp": "Read",
        "monitor": "Bash",
        "notebook_edit": "NotebookEdit",
        "propose_goal": "Goal",
        "send_message": "Task",
        "skill": "Skill",
        "structured_output": "StructuredOutput",
        "task_create": "TaskList",
        "task_list": "TaskList",
        "task_stop": "Task",
        "task_update": "TaskList",
        "tool_search": "ToolSearch",
        "update_goal": "Goal",
        "zoom_image": "Read",
    },
)


Variable = Callable[[str], str | None]

SETTINGS, DEFAULTS = "QWEN_CODE_SYSTEM_SETTINGS_PATH", "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
GATE = str(Path(__file__).with_name("ask_policy.json"))


def home(variable: Variable) -> Path:
    """The user's `.qwen` folder."""
    own = variable("QWEN_HOME")
    return Path(own) if own else Path(variable("HOME") or Path.home()) / ".qwen"


def acp(spec: SessionSpec) -> Launch:
    return Launch([*ROW.command, *_words(spec)], env=_env(spec))


def two_way(spec: SessionSpec) -> Launch:
    argv: list[Word] = ["qwen", "--input-format=stream-json", "--output-format=stream-json"]
    argv += ["--include-partial-messages", *_words(spec)]
    if spec.resume:
        argv.append(f"--resume={spec.resume}")
    if spec.tools.servers:
        servers = {name: dict(server) for name, server in spec.tools.servers.items()}
        content = json.dumps({"mcpServers": servers}).encode()
        argv.append(SecretFile("--mcp-config=", content))
    return Launch(argv, env=_env(spec))


def approval_mode(mode: Mode) -> str:
    """The approval mode; always set, since newer versions approve what a model finds harmless."""
    return "plan" if mode == "plan" else "default"


def _env(spec: SessionSpec) -> dict[str, Word]:
    """The variables, with the rules that make it ask (`ask_policy.py`), possibly merged."""
    system, defaults = spec.native.options.get(SETTINGS), spec.native.options.get(DEFAULTS)
    env: dict[str, Word] = {
        "QWEN_CODE_NO_RELAUNCH": "true",  # otherwise signals end only the outer of two processes
        SETTINGS: SecretFile("", system.encode()) if isinstance(system, str) else GATE,
    }
    return env | ({DEFAULTS: defaults} if isinstance(defaults, str) else {})


def _words(spec: SessionSpec) -> list[Word]:
    words: list[Word] = [f"--approval-mode={approval_mode(spec.mode)}"]
    if spec.model:
        words.append(f"--model={spec.model}")
    if spec.system:
        words.append(f"--append-system-prompt={spec.system}")
    words += [f"--include-directories={folder}" for folder in spec.folders]
    words += [f"--allowed-tools={tool}" for tool in spec.tools.allowed]
    return words + [f"--exclude-tools={tool}" for tool in spec.tools.denied]
