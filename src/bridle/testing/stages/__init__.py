"""Every agent CLI before the scripted model; `STAGES["codex"].shell("ls")` calls its shell tool."""

from bridle.testing.stages.claude import Claude, ClaudeAgentAcp
from bridle.testing.stages.codex import Codex, CodexAcp
from bridle.testing.stages.copilot import Copilot
from bridle.testing.stages.gemini import Gemini
from bridle.testing.stages.opencode import OpenCode
from bridle.testing.stages.qwen import Qwen
from bridle.testing.stages.stage import KEY, NoTool, Stage

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
