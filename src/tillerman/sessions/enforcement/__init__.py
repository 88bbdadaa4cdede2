"""What the kernel enforces in a session: denied commands, protected names, denied paths."""
