"""Open requests, answered by policy, user or timeout; remembered rules; bypass detection."""
