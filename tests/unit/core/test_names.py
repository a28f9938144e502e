"""Names that would be unsafe in a key, a path or a log line are refused with the reason and the remedy."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.names import check_group, check_member, check_prefix, name_problem, prefix_problem
from streamshard.errors import InvalidRequest

CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]


@pytest.mark.parametrize("problem", [prefix_problem, name_problem])
@pytest.mark.parametrize(
    "name", ["orders", "a", "orders:eu:1", "주문", "two words", "...", ".hidden", "%2F", "x" * 200, "é" * 100]
)
def test_an_ordinary_name_has_no_problem(problem: Callable[[str], str | None], name: str) -> None:
    assert problem(name) is None


@pytest.mark.parametrize("problem", [prefix_problem, name_problem])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "is empty: choose a name of 1 to 200 bytes"),
        ("x" * 201, "is 201 bytes of UTF-8 long: shorten it to 200 or fewer"),
        ("é" * 101, "is 202 bytes of UTF-8 long: shorten it to 200 or fewer"),
        ("a/b", "has a '/' at position 1: take it out"),
        (".", "is '.', which means a directory in a URL: choose another name"),
        ("..", "is '..', which means a directory in a URL: choose another name"),
        ("../etc", "has a '/' at position 2: take it out"),
        (" orders", "begins or ends with a space: take it away"),
        ("orders ", "begins or ends with a space: take it away"),
        ("orders\u3000", "begins or ends with a space: take it away"),
        ("or\nders", "has the control character U+000A at position 2: take it out"),
        ("orders\x7f", "has the control character U+007F at position 6: take it out"),
        ("\ud800", "has the lone surrogate U+D800 at position 0: take it out"),
    ],
)
def test_a_bad_name_is_explained(problem: Callable[[str], str | None], name: str, why: str) -> None:
    assert problem(name) == why


@pytest.mark.parametrize("code", CONTROLS)
def test_no_control_character_is_let_through(code: int) -> None:
    assert name_problem(f"a{chr(code)}b") == f"has the control character U+{code:04X} at position 1: take it out"


def test_braces_are_refused_in_a_prefix_only() -> None:
    assert prefix_problem("{orders}") == "has a '{' at position 0: take it out"
    assert prefix_problem("orders}") == "has a '}' at position 6: take it out"
    assert name_problem("{billing}") is None


@pytest.mark.parametrize(
    ("check", "field"),
    [(check_prefix, "streamPrefix"), (check_group, "consumerGroup"), (check_member, "memberId")],
)
def test_a_check_returns_a_good_name_and_names_the_field_of_a_bad_one(check: Callable[[str], str], field: str) -> None:
    assert check("orders") == "orders"

    with pytest.raises(InvalidRequest, match=f"^{field}: is empty: choose a name of 1 to 200 bytes$"):
        check("")


def test_a_check_names_the_field_it_is_told() -> None:
    with pytest.raises(InvalidRequest, match=r"^consumerGroups\[2\]: has a '/'"):
        check_group("a/b", field="consumerGroups[2]")


@given(st.text())
def test_a_name_without_a_problem_is_encodable_and_printable_as_one_line(name: str) -> None:
    if name_problem(name) is None:
        assert 1 <= len(name.encode()) <= 200
        assert "\n" not in name
        assert "/" not in name


@given(st.text())
def test_a_message_never_repeats_a_control_character(name: str) -> None:
    assert not set(name_problem(name) or "") & {chr(code) for code in CONTROLS}
