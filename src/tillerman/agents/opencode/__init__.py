"""Agent driver for OpenCode.

It uses ACP (`dialect`, `wire`), with a config passed by variable (`config`) so that it asks before
it acts. `[agents.opencode] surface = "run"` selects `opencode run` (`run_wire`) instead: one
process per turn, under the user's own rules, which cannot ask.
"""
