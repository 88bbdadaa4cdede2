"""Hooks of Cursor: their payloads, the events they carry, and the plugin that registers them."""
