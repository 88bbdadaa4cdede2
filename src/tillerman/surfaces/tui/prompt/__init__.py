"""The prompt box: text, files, completions, history."""
