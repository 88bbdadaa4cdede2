"""One SQLite file: what happened in every session, durable before anybody sees it."""
