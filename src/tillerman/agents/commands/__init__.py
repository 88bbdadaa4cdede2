"""Runs an agent's own commands and reads its files."""
