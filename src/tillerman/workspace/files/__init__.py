"""File tools that are confined to the workspace root."""
