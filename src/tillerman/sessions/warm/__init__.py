"""Agents that the session service keeps started for sessions that may follow."""
