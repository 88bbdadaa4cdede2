"""Cursor's command line agent behind bridle's port."""

from bridle.agents.cursor.agent import Cursor

agent = Cursor()

__all__ = ["agent"]
