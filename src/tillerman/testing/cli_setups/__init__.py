"""Test setups of all agent CLIs with the scripted model: `STAGES["codex"].shell("ls")`."""

from tillerman.testing.cli_setups.claude import ClaudeAgentAcp, ClaudeSetup
from tillerman.testing.cli_setups.codex import CodexAcp, CodexSetup
from tillerman.testing.cli_setups.copilot import CopilotSetup
from tillerman.testing.cli_setups.gemini import GeminiSetup
from tillerman.testing.cli_setups.opencode import OpenCodeSetup
from tillerman.testing.cli_setups.qwen import QwenSetup
from tillerman.testing.cli_setups.setup import KEY, CliSetup, ToolUnavailable

STAGES: dict[str, CliSetup] = {
    stage.agent: stage
    for stage in (
        ClaudeSetup(),
        CodexSetup(),
        GeminiSetup(),
        QwenSetup(),
        OpenCodeSetup(),
        CopilotSetup(),
        ClaudeAgentAcp(),
        CodexAcp(),
    )
}

__all__ = ["KEY", "STAGES", "CliSetup", "ToolUnavailable"]
