"""Probes whether an agent asks before each kind of call."""
