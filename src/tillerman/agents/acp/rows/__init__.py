"""ACP agents that are described by a row of data: the rows, and the agent made of one."""
