"""Cursor's command line agent behind tillerman's port."""

from tillerman.agents.cursor.agent import Cursor

agent = Cursor()

__all__ = ["agent"]
