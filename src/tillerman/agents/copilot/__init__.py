"""GitHub Copilot CLI behind tillerman's port.

It is spoken to over ACP (`dialect`, `wire`). `[agents.copilot] surface = "json"` takes its JSON
lines (`lines`) instead: a process for each turn, which asks nobody and is refused whatever was not
allowed beforehand.
"""

from tillerman.agents.copilot.agent import CopilotAgent

agent = CopilotAgent()

__all__ = ["agent"]
