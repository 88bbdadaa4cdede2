"""Runs the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import sys
from importlib import import_module

FIGURES = (
    *("startup", "imports", "pipeline", "fleet", "acp_client", "store"),
    *("overhead", "agents", "second_turn", "memory", "secrets"),
    *("hooks", "tool_calls", "policy", "enforcement", "protection", "isolation", "mcp", "tui"),
    "server",
)


def main(names: list[str]) -> None:
    for name in names or FIGURES:
        if name not in FIGURES:
            raise SystemExit(f"no figure is called {name!r}; there are: {', '.join(FIGURES)}")
        module = import_module(f"bench.{name}")
        sys.argv[1:] = []  # a benchmark run alone takes its own arguments
        print(f"\n# {(module.__doc__ or name).splitlines()[0]}", flush=True)
        module.main()


main(sys.argv[1:])
