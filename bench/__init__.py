"""Benchmarks, each a ratio within one run: `python -m bench [NAME …]`."""
