"""Agent driver for Cursor's command-line agent."""

from tillerman.agents.cursor.agent import Cursor

agent = Cursor()

__all__ = ["agent"]
