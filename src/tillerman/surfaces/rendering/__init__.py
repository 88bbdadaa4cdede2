"""What people see at a terminal, whichever surface shows it: phrases, Markdown, diffs, dialogs."""
