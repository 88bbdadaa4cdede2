"""Every agent CLI before the scripted model; `STAGES["codex"].shell("ls")` calls its shell tool."""

from tillerman.testing.cli_setups.claude import Claude, ClaudeAgentAcp
from tillerman.testing.cli_setups.codex import Codex, CodexAcp
from tillerman.testing.cli_setups.copilot import Copilot
from tillerman.testing.cli_setups.gemini import Gemini
from tillerman.testing.cli_setups.opencode import OpenCode
from tillerman.testing.cli_setups.qwen import Qwen
from tillerman.testing.cli_setups.setup import KEY, NoTool, Stage

STAGES: dict[str, Stage] = {
    stage.agent: stage
    for stage in (
        Claude(),
        Codex(),
        Gemini(),
        Qwen(),
        OpenCode(),
        Copilot(),
        ClaudeAgentAcp(),
        CodexAcp(),
    )
}

__all__ = ["KEY", "STAGES", "NoTool", "Stage"]
