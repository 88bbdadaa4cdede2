"""Every agent CLI before the scripted model; `STAGES["codex"].shell("ls")` calls its shell tool."""

from stages.claude import Claude, ClaudeAgentAcp
from stages.codex import Codex, CodexAcp
from stages.copilot import Copilot
from stages.gemini import Gemini
from stages.opencode import OpenCode
from stages.qwen import Qwen
from stages.stage import KEY, Actor, NoTool, Stage

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

__all__ = ["KEY", "STAGES", "Actor", "NoTool", "Stage"]
