"""The supervising processes: a warden for each session, a keeper for each program."""
