"""The conversation view: blocks, layout, viewport, diffs."""
