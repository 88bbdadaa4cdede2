"""Open requests, answered by policy, person or timeout; remembered rules; bypass detection."""
