"""Bars around the conversation: branch, status, tabs, keys."""
