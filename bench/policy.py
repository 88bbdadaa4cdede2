"""Policy decision time with 500 config rules, in microseconds."""

from __future__ import annotations

import os
import time
from pathlib import PurePosixPath
from statistics import median

from tillerman.config.policy_rules import rule_of
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10")) * 20
HERE = DecisionContext(PurePosixPath("/ws"), home=PurePosixPath("/home/me"))
REQUESTS = {
    "read a file": ("Read", {"file_path": "src/app.py"}),
    "write a file": ("Write", {"file_path": "src/app.py"}),
    "ls -la src": ("Bash", {"command": "ls -la src"}),
    "a pipeline of four": (
        "Bash",
        {"command": "cd src && git log -5 | grep fix | wc -l > out.txt"},
    ),
    "a script of 40 lines": ("Bash", {"command": "for f in a b; do cat $f; done\n" * 40}),
    "a host": ("WebFetch", {"url": "https://example.com/x"}),
}


def rules(count: int) -> list[Rule]:
    """Rules of which none matches: every decision considers all."""
    kinds = (
        lambda n: {"command": f"tool-{n} *", "deny": "no"},
        lambda n: {"command": [f"npm run x{n}", f"make x{n} *"], "allow": True},
        lambda n: {"path": f"packages/p{n}/**", "tool": "write", "ask": True},
        lambda n: {"host": f"*.h{n}.example.com", "deny": "no"},
        lambda n: {"mcp": f"server{n}.*", "allow": True},
    )
    return [rule_of(kinds[n % 5](n), "bench", name=f"r{n}") for n in range(count)]


def took(policy: Policy, request: PermissionRequested) -> float:
    begin = time.perf_counter()
    policy.decide(request, HERE)
    return time.perf_counter() - begin


def main() -> None:
    counts = (0, 500)
    policies = {count: Policy.preset("ask", rules=rules(count)) for count in counts}
    print(f"{'':<24}{'no rules':>14}{'500 rules':>14}")
    for name, (tool, input) in REQUESTS.items():
        request = PermissionRequested(request_id="r", tool=tool, title=tool, input=input)
        cells = []
        for policy in policies.values():
            took(policy, request)  # patterns are compiled once
            each = median(took(policy, request) for _ in range(ROUNDS))
            cells.append(f"{each * 1e6:>11.0f} µs")
        print(f"{name:<24}{''.join(cells)}")


if __name__ == "__main__":
    main()
