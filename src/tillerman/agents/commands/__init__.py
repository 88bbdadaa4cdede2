"""Runs an agent's native commands and reads its files."""
