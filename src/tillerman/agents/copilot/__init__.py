"""Agent driver for GitHub Copilot CLI.

It uses ACP (`dialect`, `wire`). `[agents.copilot] surface = "json"` selects its JSON lines
(`json_wire`) instead: one process per turn, which cannot ask and is denied everything that was not
allowed beforehand.
"""
