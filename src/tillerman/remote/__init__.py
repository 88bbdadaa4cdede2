"""Sessions of a service on this or another machine, over its HTTP API: `tillerman.connect`."""
