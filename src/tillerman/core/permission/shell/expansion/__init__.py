"""Expansions of shell words: braces, parameters, arithmetic, globs."""
