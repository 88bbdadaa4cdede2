"""Codex behind tillerman's port: its app-server, and `exec` for versions without one."""

from tillerman.agents.codex.agent import CodexAgent, CodexExec

agent = CodexAgent()
exec_agent = CodexExec()

__all__ = ["agent", "exec_agent"]
