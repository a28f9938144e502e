"""What an append takes besides its record."""

from streamshard.errors import InvalidRequest


def check_max_len(max_len: int | None) -> None:
    """Raise `InvalidRequest` for a length that Redis would not take, or that would drop the record itself."""
    if max_len is not None and max_len < 1:
        raise InvalidRequest(f"max_len: must be at least 1, not {max_len}")
