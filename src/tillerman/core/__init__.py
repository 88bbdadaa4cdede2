"""What things are: events, the agent port, requests, errors. Pure: no I/O, no asyncio."""
