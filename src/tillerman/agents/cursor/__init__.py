"""Agent driver for Cursor's command-line agent."""
