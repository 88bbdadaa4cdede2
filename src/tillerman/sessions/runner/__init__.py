"""One live session: the loop that drives its agent."""
