"""Limits of a turn: time, cost, tokens and model calls."""
