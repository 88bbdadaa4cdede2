"""No payload of a hook raises, and a payload that cannot be decided is not allowed."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.hooks.dialects import agents_with_hooks, dialect_of, load
from tillerman.hooks.policy_only_answer import decide_hook

RECORDINGS = Path(__file__).parents[2] / "recordings"
SAMPLES = [
    (agent, path.stem.partition("_")[0], json.loads(path.read_text())["request"])
    for agent in agents_with_hooks()
    for path in sorted((RECORDINGS / agent / "hooks").glob("*.json"))
]
DENY_ALL = Policy.preset("auto", rules=[Rule("all", "deny", "no")])
CONTEXT = DecisionContext(cwd=PurePath("/proj"))

_odd = st.sampled_from(
    [None, True, 0, -1.5, 2**70, "", "\ud800", "\n\x1b[2J", [], {}, [[]], {"command": None}, "{"]
)
_values = _odd | st.recursive(
    _odd, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner)
)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_malformed_payload_raises_nothing_and_opens_no_gate(data: st.DataObject) -> None:
    agent, event, sample = data.draw(st.sampled_from(SAMPLES))
    mangled: dict[str, Any] = dict(sample)
    for key in data.draw(st.lists(st.sampled_from(sorted(sample)), max_size=3)):
        if data.draw(st.booleans()):
            mangled.pop(key, None)
        else:
            mangled[key] = data.draw(_values)
    if isinstance(input := mangled.get("tool_input"), dict) and data.draw(st.booleans()):
        mangled["tool_input"] = {key: data.draw(_values) for key in input}
    payload = json.dumps(mangled).encode()
    if data.draw(st.booleans()):
        payload = payload[: data.draw(st.integers(0, len(payload)))]

    one = dialect_of(agent, payload)
    reported = one.read(event, payload)
    reply = decide_hook(one, reported, DENY_ALL, CONTEXT)

    if reported.event in one.GATES and one.request_of(reported, "r"):
        assert b"allow" not in reply.stdout
        assert reply.exit == 2 or b"deny" in reply.stdout or b"block" in reply.stdout
    for again in (
        one.allow(reported),
        one.ask(reported, "x"),
        one.context(reported, "x"),
        one.go_on(reported, "x"),
    ):
        assert again.exit in (0, 2)


@given(payload=st.binary(max_size=60))
@settings(max_examples=80, deadline=None)
def test_bytes_that_are_not_an_event_are_refused_at_every_gate(payload: bytes) -> None:
    for agent in agents_with_hooks():
        one = load(agent)
        for gate in one.CALLS:
            reply = decide_hook(one, one.read(gate, payload), Policy.preset("auto"), CONTEXT)
            assert (reply.exit, reply.stdout) == (2, b"")
