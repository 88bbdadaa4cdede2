"""The conversation view: blocks, layout, diffs."""
