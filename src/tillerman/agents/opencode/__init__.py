"""OpenCode behind tillerman's port.

It is spoken to over ACP (`dialect`, `wire`), with config given by variable (`config`) so that it
asks before it acts. `[agents.opencode] surface = "run"` takes `opencode run` instead: a process for
each turn, under the user's own rules, which asks nobody. `serve` reads the events of its HTTP
server, which tells more than ACP does; nothing drives that server yet.
"""

from tillerman.agents.opencode.agent import OpenCodeAgent

agent = OpenCodeAgent()

__all__ = ["agent"]
