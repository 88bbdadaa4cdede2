"""The session service: sessions over HTTP, events by SSE and WebSocket, for this user only."""
