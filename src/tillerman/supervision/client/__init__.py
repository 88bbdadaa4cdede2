"""The harness's side of supervision: spawn, wait, sweep."""
