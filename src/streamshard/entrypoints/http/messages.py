"""Records as JSON: text where they are text, base64 where they are not."""

from base64 import b64encode

import msgspec

from streamshard.core.ids import WallMillis
from streamshard.core.inspection import Entry, milliseconds
from streamshard.entrypoints.http.monitoring_answers import MessageRecord, Octets
from streamshard.entrypoints.http.replies import instant

PAYLOAD = "payload"
"""The field that producers by convention put the whole message in."""

_CALENDAR_MS = 253_402_300_800_000
"""From here on ids are no dates: the calendar of most languages ends with the year 9999."""


def record_answer(entry: Entry) -> MessageRecord:
    """A record; its time is read off its id."""
    fields, at = _texts(entry), milliseconds(entry.id)
    return MessageRecord(
        record_id=entry.id,
        fields=fields,
        fields_base64=None if len(fields) == len(entry.fields) else _octets(entry),
        payload=fields.get(PAYLOAD),
        record_time=instant(WallMillis(at)) if at < _CALENDAR_MS else None,
        record_timestamp_ms=at,
    )


def fields_text(record: MessageRecord) -> str:
    """All fields of a record in one text."""
    return msgspec.json.encode(record.fields_base64 or record.fields).decode()


def _texts(entry: Entry) -> dict[str, str]:
    """The fields that text can carry; of a name that comes twice, the last."""
    found: dict[str, str] = {}
    for name, value in entry.fields:
        try:
            found[name.decode()] = value.decode()
        except UnicodeDecodeError:
            continue
    return found


def _octets(entry: Entry) -> list[Octets]:
    return [Octets(name=b64encode(name).decode(), value=b64encode(value).decode()) for name, value in entry.fields]
