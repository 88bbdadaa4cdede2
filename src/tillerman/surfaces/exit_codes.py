"""Exit codes of the command line that are not agent failures."""

NOT_READY = 3  # not installed, or not signed in
CANCELLED = 130  # as a program ended by SIGINT
TIMED_OUT = 124  # as coreutils `timeout`
BROKEN_PIPE = 141  # as a program ended by SIGPIPE
