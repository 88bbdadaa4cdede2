"""Kernel enforcement in a session: denied commands, protected names, denied paths."""
