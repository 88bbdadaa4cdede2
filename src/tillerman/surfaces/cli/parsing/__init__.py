"""Argument parsing: commands, options, validation errors."""
