"""Probes whether an agent requests approval before each kind of call."""
