from __future__ import annotations

from typing import Any

import pytest

from tillerman.agents.jsonrpc.peer import (
    RpcError,
    RpcInvalid,
    RpcNotification,
    RpcPeer,
    RpcRequest,
    RpcResponse,
    Said,
)
from tillerman.core.wire import WireReply


def then(result: Any, error: RpcError | None) -> Said:
    yield WireReply({"result": result, "error": error})


def test_a_request_is_answered_to_its_sender() -> None:
    peer = RpcPeer()
    first = peer.request("one", {"a": 1}, then)
    second = peer.request("two", {}, then)
    assert first == {"jsonrpc": "2.0", "id": 0, "method": "one", "params": {"a": 1}}
    assert peer.receive(b'{"result":{"b":2},"id":1,"jsonrpc":"2.0"}') == RpcResponse(
        then, {"b": 2}, None
    )
    received = peer.receive(b'{"id":0,"error":{"code":-32603,"message":"no","data":{"c":3}}}')
    error = RpcError(-32603, "no", {"c": 3})
    assert received == RpcResponse(then, None, error)
    assert isinstance(received, RpcResponse)
    assert list(received.pass_on()) == [WireReply({"result": None, "error": error})]
    assert second["id"] == 1


def test_a_second_response_is_ignored() -> None:
    peer = RpcPeer()
    peer.request("one", {}, then)
    assert isinstance(peer.receive(b'{"id":0,"result":null}'), RpcResponse)
    assert peer.receive(b'{"id":0,"result":null}') == RpcInvalid(
        "an answer to a request that is not open: 0"
    )


def test_ids_come_back_as_they_were_and_a_number_is_no_text() -> None:
    peer = RpcPeer()
    number = peer.receive(b'{"id":1,"method":"ask","params":{"x":1}}')
    word = peer.receive(b'{"id":"1","method":"ask"}')
    assert (number, word) == (RpcRequest(1, "ask", {"x": 1}), RpcRequest("1", "ask", {}))
    assert isinstance(number, RpcRequest)
    assert isinstance(word, RpcRequest)
    assert number.key != word.key
    assert peer.result(word, {}) == {"jsonrpc": "2.0", "id": "1", "result": {}}


def test_ids_of_the_peer_are_separate_from_ours() -> None:
    peer = RpcPeer()
    peer.request("ours", {}, then)
    assert peer.receive(b'{"id":0,"method":"theirs"}') == RpcRequest(0, "theirs", {})
    assert isinstance(peer.receive(b'{"id":0,"result":1}'), RpcResponse)


def test_an_unknown_method_is_answered_with_an_error() -> None:
    asked = RpcRequest(7, "fs/read", {})
    assert RpcPeer(version=False).unknown(asked) == {
        "id": 7,
        "error": {"code": -32601, "message": "'fs/read' is not supported"},
    }


def test_a_notification_has_no_id() -> None:
    peer = RpcPeer(version=False)
    assert peer.receive(b'{"method":"turn/started","params":{"t":1}}') == RpcNotification(
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
def test_an_invalid_message_gives_the_reason(line: bytes) -> None:
    peer = RpcPeer()
    peer.request("one", {}, then)
    received = peer.receive(line)
    assert isinstance(received, RpcInvalid)
    assert received.why


def test_an_error_of_any_shape_is_an_error() -> None:
    for text in (b'"boom"', b"{}", b'{"code":"x","message":5}', b"7"):
        peer = RpcPeer()
        peer.request("one", {}, then)
        received = peer.receive(b'{"id":0,"error":' + text + b"}")
        assert received == RpcResponse(then, None, RpcError(0, "no reason was given", None))


def test_an_error_has_data_and_may_be_for_an_unknown_request() -> None:
    peer = RpcPeer()
    asked = RpcRequest("x", "ask", {})
    error = {"code": -32602, "message": "no", "data": {"hint": "yes"}}
    assert peer.error(asked, -32602, "no", {"hint": "yes"})["error"] == error
    unknown = peer.error_for(None, RpcError(-32700, "not JSON"))
    assert unknown == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "not JSON"},
    }


def test_the_answer_to_a_request_that_was_given_up_is_ignored() -> None:
    peer = RpcPeer()
    request = peer.request("one", {}, then)
    peer.forget(request)
    peer.forget(request)
    assert isinstance(peer.receive(b'{"id":0,"result":1}'), RpcInvalid)
