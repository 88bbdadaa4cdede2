"""The web page: HTML of sessions, rendered on the server from the transcript."""
