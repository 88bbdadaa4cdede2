"""Builds sessions from config: agent selection, launch plan, fallback agents, agent admin."""
