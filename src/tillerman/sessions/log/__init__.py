"""An event on its way into the log: redact, cap, number, append, publish."""
