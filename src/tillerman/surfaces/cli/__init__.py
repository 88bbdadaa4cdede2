"""The command line. Whatever is heavy is imported by the command that needs it."""
