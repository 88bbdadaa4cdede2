"""The prompt box: text input, attachments, completions, history, shell commands."""
