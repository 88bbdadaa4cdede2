"""Durable pipelines: steps by agents, commands and people, described by a file."""
