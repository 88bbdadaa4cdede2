"""Rendering shared by the CLI and the TUI: formatting, Markdown, diffs, dialogs, tables."""
