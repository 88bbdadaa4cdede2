"""Wire protocol of the hook socket: one request and one answer, each a line followed by bytes.

    tillerman1 <ask token> <nonce> <agent> <event> <deadline in ms> <length>\\n payload
    tillerman1 <answer token> <nonce> <exit> <stdout length> <stderr length>\\n stdout stderr EOF

Both versions of the shim, `shim_client.py` and `shim.c`, implement their side without this package:
they run on every tool call and must start fast.
"""

from __future__ import annotations

import re

import msgspec

PAYLOAD_CAP = 16 * 1024 * 1024  # of the JSON that a CLI sends to its hook
REPLY_CAP = 32 * 1024 * 1024  # a changed input may be escaped twice on its way back
HEADER_CAP = 512
TOKEN_BYTES = 32
NAME = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"

_QUESTION = re.compile(
    rb"tillerman1 ([0-9a-f]{64}) ([0-9a-f]{32}) (%b) (-?)(%b) ([0-9]{1,9}) ([0-9]{1,9})"
    % (NAME.encode(), NAME.encode())
)


class HookReply(msgspec.Struct, frozen=True):
    """The output of the hook for the CLI. A blocking hook uses two exit codes: 0 and 2."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit: int = 0


class ShimQuestion(msgspec.Struct, frozen=True):
    """The header line of a shim's request; its payload follows."""

    token: bytes
    nonce: bytes
    agent: str
    event: str
    observing: bool  # the CLI does not wait for a decision
    deadline: float  # seconds that the shim will still wait
    length: int


def is_name(word: str) -> bool:
    """Whether the text is valid as agent or event on a command line and in a request."""
    return re.fullmatch(NAME, word) is not None


def refusal(reason: str) -> HookReply:
    """A deny that every CLI understands."""
    return HookReply(stderr=f"tillerman: {reason}\n".encode(), exit=2)


def read_question(line: bytes) -> ShimQuestion | None:
    """Parses a header line; None if it is invalid or announces too long a payload."""
    found = _QUESTION.fullmatch(line)
    if found is None:
        return None
    token, nonce, agent, observing, event, deadline, length = found.groups()
    if int(length) > PAYLOAD_CAP:
        return None
    return ShimQuestion(
        token=token,
        nonce=nonce,
        agent=agent.decode(),
        event=event.decode(),
        observing=bool(observing),
        deadline=int(deadline) / 1000,
        length=int(length),
    )


def write_answer(token: bytes, nonce: bytes, reply: HookReply) -> bytes:
    if len(reply.stdout) + len(reply.stderr) > REPLY_CAP:
        reply = refusal("the answer is too long for a hook")
    if reply.exit not in range(256):
        reply = refusal(f"invalid exit code {reply.exit}")
    sizes = f"{reply.exit} {len(reply.stdout)} {len(reply.stderr)}".encode()
    return b"tillerman1 %b %b %b\n%b%b" % (token, nonce, sizes, reply.stdout, reply.stderr)
