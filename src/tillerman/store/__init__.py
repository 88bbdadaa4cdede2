"""SQLite store of all sessions; entries are durable before they are published."""
