"""Parses arguments: commands, options, errors."""
