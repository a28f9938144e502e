"""The order of record ids."""

from streamshard.core.ids import RecordId

ZERO = RecordId("0-0")


def id_order(record_id: str) -> tuple[int, int]:
    """A key that sorts ids as Redis does; ``5`` stands for ``5-0``."""
    milliseconds, _, sequence = record_id.partition("-")
    return int(milliseconds), int(sequence or 0)


def id_text(order: tuple[int, int]) -> RecordId:
    """The id of such a key."""
    return RecordId(f"{order[0]}-{order[1]}")
