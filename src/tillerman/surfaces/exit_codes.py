"""Exit codes that no failure of an agent stands for."""

NOT_READY = 3  # not installed, or not signed in
CANCELLED = 130  # as a program that SIGINT ended
TIMED_OUT = 124  # as `timeout` of the coreutils
BROKEN_PIPE = 141  # as a program that SIGPIPE ended
