"""Views: made by those who know the key, for one group, and read back whole."""

from streamshard.core.ids import GroupKey, GroupName, Lineage, Nonce, StreamPrefix, Version, View
from streamshard.core.views import mint, read
from tests.unit.core.builders import KEY, MAC, VERSION


def test_a_view_is_read_back_as_the_version_it_names() -> None:
    version = Version(Lineage("0f" * 16), 1_234_567, Nonce("a0" * 16))

    assert read(MAC, KEY, mint(MAC, KEY, version)) == version


def test_a_view_made_with_another_key_is_nobodys() -> None:
    assert read(MAC, KEY, mint("another key", KEY, VERSION)) is None


def test_a_view_of_another_group_of_the_stream_is_nobodys() -> None:
    other = GroupKey(StreamPrefix("orders"), GroupName("shipping"))

    assert read(MAC, KEY, mint(MAC, other, VERSION)) is None


def test_a_view_with_any_character_changed_is_nobodys() -> None:
    view = mint(MAC, KEY, VERSION)
    changed = [View(view[:i] + "~" + view[i + 1 :]) for i in range(len(view))]

    assert [read(MAC, KEY, other) for other in changed] == [None] * len(view)


def test_text_that_never_was_a_view_is_nobodys() -> None:
    texts = ["", ".", "...", "lineage.1.nonce", "\ud800", "lineage.1.nonce.\ud800", "é.1.2.3"]

    assert [read(MAC, KEY, View(text)) for text in texts] == [None] * len(texts)
