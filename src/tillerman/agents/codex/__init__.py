"""Agent driver for Codex: its app-server, and `codex exec` for versions without one."""

from tillerman.agents.codex.agent import CodexAgent, CodexExec

agent = CodexAgent()
exec_agent = CodexExec()

__all__ = ["agent", "exec_agent"]
