"""Exit codes that no failure of an agent stands for."""

CANCELLED = 130  # as a program that SIGINT ended
BROKEN_PIPE = 141  # as a program that SIGPIPE ended
