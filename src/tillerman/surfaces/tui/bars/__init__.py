"""The bars around the conversation: branch, status, tabs, keys."""
