"""Gemini CLI's agent row, command lines and environment variables, for both transports.

A policy (`ask_policy.toml`) that overrides the user's makes it ask about every call over ACP; the
rest is set by variables. Our own settings cannot be passed: system settings count only in files
that root owns, in folders that only root may write. The user's files and trusted folders are
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.core.agent import Prompt, SecretFile, SecretFolder, SessionSpec, Word
from tillerman.core.wire import Launch

ROW = AcpAgentRow(
    name="gemini",
    command=("gemini", "--acp"),
    title="Gemini CLI",
    install="npm install -g @google/gemini-cli",
    login="set GEMINI_API_KEY, or run `gemini` and sign in with /auth",
    variables=("GEMINI_*", "GOOGLE_*", "CODE_ASSIST_ENDPOINT"),
    tested=("0.61.0", "0.61.0"),
    can=frozenset({"folders", "retries"}),
    asks=frozenset({"read", "write", "shell", "network", "mcp"}),
    cannot=frozenset({"effort"}),
    model_flag="--model",
    folder_flag="--include-directories",
    modes={"plan": "plan", "ask": "default"},
    replays="after",
    tool_name="id",
    thought_head="****\n",
    tools={
        "activate_skill": "Skill",
        "ask_user": "Question",
        "complete_task": "Topic",
        "invoke_agent": "Task",
        "list_background_processes": "TaskList",
        "plan_file": "Topic",
        "read_background_output": "TaskOutput",
        "update_topic": "Topic",
        "write_todos": "TodoWrite",
    },
    notice_prefixes=("[MODE_UPDATE] ",),
)

Variable = Callable[[str], str | None]

GATE = str(Path(__file__).with_name("ask_policy.toml"))
POLICY = "policy"  # the option that holds a merged policy
BASE_URL = "GOOGLE_GEMINI_BASE_URL"
KEY = "GEMINI_API_KEY"


def home(variable: Variable) -> Path:
    """The user's `.gemini` folder."""
    return Path(variable("GEMINI_CLI_HOME") or variable("HOME") or Path.home()) / ".gemini"


def acp(spec: SessionSpec) -> Launch:
    env = {**_env(spec), "GEMINI_DEBUG_LOG_FILE": "/dev/stderr"}  # otherwise it reports no retries
    return Launch([*ROW.command, *_words(spec), _policy(spec)], env=env)


def one_turn(spec: SessionSpec, prompt: Prompt) -> Launch:
    argv: list[Word] = ["gemini", "--output-format=stream-json", *_words(spec, unasked(spec))]
    if spec.resume:
        argv.append(f"--resume={spec.resume}")
    return Launch(argv, env=_env(spec), stdin=prompt.text.encode())


def unasked(spec: SessionSpec) -> str:
    """The approval mode if it cannot ask: what would need approval is withheld."""
    presets = {"auto": "yolo", "edits": "auto_edit"} if spec.mode == "agent" else {}
    return presets.get(spec.approval.preset, "default")


def _words(spec: SessionSpec, mode: str = "default") -> list[Word]:
    words: list[Word] = [f"--approval-mode={'plan' if spec.mode == 'plan' else mode}"]
    if spec.native.options.get("trust") is True:
        words.append("--skip-trust")
    if spec.model:
        words.append(f"--model={spec.model}")
    return words + [f"--include-directories={folder}" for folder in spec.folders]


def _policy(spec: SessionSpec) -> Word:
    flag, merged = "--admin-policy=", spec.native.options.get(POLICY)
    if not isinstance(merged, str):
        return flag + GATE
    return SecretFolder(flag, {"gate.toml": merged.encode()})


def _env(spec: SessionSpec) -> dict[str, Word]:
    env: dict[str, Word] = {
        "GEMINI_CLI_NO_RELAUNCH": "true",  # otherwise signals end only the outer of two processes
        "GEMINI_PTY_INFO": "child_process",  # terminal output is not sent over ACP
    }
    if spec.native.options.get(BASE_URL):
        env[BASE_URL] = "https://generativelanguage.googleapis.com"
    if spec.system:
        env["GEMINI_SYSTEM_MD"] = SecretFile("", spec.system.encode())
    return env
