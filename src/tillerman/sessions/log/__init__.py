"""The path of an event into the log: redact, cap, number, append, publish."""
