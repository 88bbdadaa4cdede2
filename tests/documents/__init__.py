"""Tests of README.md and docs/: blocks, links and statements."""
