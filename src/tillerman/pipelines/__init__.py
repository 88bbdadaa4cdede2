"""Durable pipelines: steps by agents, commands and people, run by one machine or by many."""
