"""Harness side of supervision: spawn programs, wait for them, sweep orphans."""
