"""Something else than Redis behind the URL, or a script of another's: trouble with the server, no fault of ours."""

import pytest

from streamshard.errors import StreamUnavailable
from tests.fuzz.replies import to_a_coordinator, to_a_member, to_an_inspector

NOTHING, PONG, NUMBER, EMPTY = b"$-1\r\n", b"+PONG\r\n", b":7\r\n", b"*0\r\n"
TEXT_FOR_A_COUNT = b"*6\r\n:1\r\n:1\r\n:0\r\n$3\r\ntwo\r\n:1\r\n*0\r\n"


@pytest.mark.parametrize("reply", [NOTHING, PONG, NUMBER, EMPTY])
@pytest.mark.parametrize("order", range(5))
def test_a_member_takes_it_for_a_server_that_can_t_be_used(order: int, reply: bytes) -> None:
    with pytest.raises(StreamUnavailable, match="can't be understood"):
        to_a_member(bytes([order]) + reply)


@pytest.mark.parametrize("reply", [NOTHING, PONG, NUMBER, EMPTY, TEXT_FOR_A_COUNT])
@pytest.mark.parametrize("order", range(5))
def test_a_coordinator_takes_it_for_a_server_that_can_t_be_used(order: int, reply: bytes) -> None:
    with pytest.raises(StreamUnavailable, match="can't be understood"):
        to_a_coordinator(bytes([order]) + reply)


@pytest.mark.parametrize("reply", [NOTHING, PONG, NUMBER, EMPTY])
def test_an_inspector_takes_it_for_a_server_that_can_t_be_used(reply: bytes) -> None:
    with pytest.raises(StreamUnavailable, match="can't be understood"):
        to_an_inspector(b"\0" + reply)
