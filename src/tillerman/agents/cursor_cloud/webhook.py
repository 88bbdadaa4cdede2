"""Verifies a webhook's signature over its raw body, and decodes it."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256

from tillerman.agents.cursor_cloud.api_objects import state_of
from tillerman.agents.cursor_cloud.request_bodies import SHORTEST_SECRET
from tillerman.agents.decoding.fields import parse, text
from tillerman.core.cloud import CloudStatusChange

_SIGNATURE = re.compile(r"sha256=([0-9a-f]{64})\Z")


def status_change(secret: str, headers: Mapping[str, str], body: bytes) -> CloudStatusChange | None:
    """None: the signature is not valid, or it is not a change of an agent's status.

    The vendor's id of a delivery is in a header, which the signature does not cover: a replayed
    body could come with a new id. So a delivery is known by its body, which has its time.
    """
    signature = _SIGNATURE.match(headers.get("x-webhook-signature", ""))
    if len(secret) < SHORTEST_SECRET or signature is None:
        return None
    wanted = hmac.new(secret.encode(), body, sha256).hexdigest()
    if not hmac.compare_digest(wanted, signature[1]):
        return None
    fields = parse(body)
    if isinstance(fields, str) or not (agent := text(fields, "id")):
        return None
    return CloudStatusChange(
        delivery=sha256(body).hexdigest(),
        sent=text(fields, "timestamp"),
        agent=agent,
        state=state_of(text(fields, "status")),
        status=text(fields, "status"),
        summary=text(fields, "summary"),
    )
