"""Core types: events, agent protocol, permission policy, errors. Pure: no I/O, no asyncio."""
