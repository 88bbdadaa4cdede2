"""The supervising processes: one warden per session, one keeper per program."""
