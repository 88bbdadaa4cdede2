from __future__ import annotations

from typing import Any

import pytest

from tillerman.agents.jsonrpc.peer import Answered, Asked, Nonsense, Peer, RpcError, Said, Told
from tillerman.core.wire import Reply


def then(result: Any, error: RpcError | None) -> Said:
    yield Reply({"result": result, "error": error})


def test_a_request_is_answered_to_whom_it_was_made_for() -> None:
    peer = Peer()
    first = peer.request("one", {"a": 1}, then)
    second = peer.request("two", {}, then)
    assert first == {"jsonrpc": "2.0", "id": 0, "method": "one", "params": {"a": 1}}
    assert peer.hear(b'{"result":{"b":2},"id":1,"jsonrpc":"2.0"}') == Answered(then, {"b": 2}, None)
    heard = peer.hear(b'{"id":0,"error":{"code":-32603,"message":"no","data":{"c":3}}}')
    error = RpcError(-32603, "no", {"c": 3})
    assert heard == Answered(then, None, error)
    assert isinstance(heard, Answered)
    assert list(heard.pass_on()) == [Reply({"result": None, "error": error})]
    assert second["id"] == 1


def test_an_answer_counts_once() -> None:
    peer = Peer()
    peer.request("one", {}, then)
    assert isinstance(peer.hear(b'{"id":0,"result":null}'), Answered)
    assert peer.hear(b'{"id":0,"result":null}') == Nonsense(
        "an answer to a request that is not open: 0"
    )


def test_ids_come_back_as_they_were_and_a_number_is_no_text() -> None:
    peer = Peer()
    number = peer.hear(b'{"id":1,"method":"ask","params":{"x":1}}')
    word = peer.hear(b'{"id":"1","method":"ask"}')
    assert (number, word) == (Asked(1, "ask", {"x": 1}), Asked("1", "ask", {}))
    assert isinstance(number, Asked)
    assert isinstance(word, Asked)
    assert number.key != word.key
    assert peer.result(word, {}) == {"jsonrpc": "2.0", "id": "1", "result": {}}


def test_the_other_sides_ids_are_not_ours() -> None:
    peer = Peer()
    peer.request("ours", {}, then)
    assert peer.hear(b'{"id":0,"method":"theirs"}') == Asked(0, "theirs", {})
    assert isinstance(peer.hear(b'{"id":0,"result":1}'), Answered)


def test_an_unknown_method_is_told_so() -> None:
    asked = Asked(7, "fs/read", {})
    assert Peer(version=False).unknown(asked) == {
        "id": 7,
        "error": {"code": -32601, "message": "'fs/read' is not supported"},
    }


def test_a_notification_has_no_id() -> None:
    peer = Peer(version=False)
    assert peer.hear(b'{"method":"turn/started","params":{"t":1}}') == Told(
        "turn/started", {"t": 1}
    )
    assert peer.notify("initialized") == {"method": "initialized"}
    assert peer.notify("cancel", {"id": 1}) == {"method": "cancel", "params": {"id": 1}}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"[]",
        b"{}",
        b'{"id":null,"error":{"code":-32700,"message":"parse error"}}',
        b'{"id":true,"result":1}',
        b'{"id":{},"method":"x"}',
        b'{"id":5}',
        b'{"id":[1],"result":0}',
        b'{"method":3}',
        b'{"result":1}',
    ],
)
def test_what_is_no_message_says_why(line: bytes) -> None:
    peer = Peer()
    peer.request("one", {}, then)
    heard = peer.hear(line)
    assert isinstance(heard, Nonsense)
    assert heard.why


def test_an_error_of_any_shape_is_an_error() -> None:
    for text in (b'"boom"', b"{}", b'{"code":"x","message":5}', b"7"):
        peer = Peer()
        peer.request("one", {}, then)
        heard = peer.hear(b'{"id":0,"error":' + text + b"}")
        assert heard == Answered(then, None, RpcError(0, "no reason was given", None))
