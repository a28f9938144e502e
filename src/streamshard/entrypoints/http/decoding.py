"""JSON in: a typed body, or an `InvalidRequest` that names every field to mend."""

from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

import msgspec

from streamshard.errors import InvalidRequest

Body = TypeVar("Body", bound=msgspec.Struct)

INT_LIMIT = 2**53 - 1
"""The largest whole number that every JSON reader keeps whole."""


class Decoder(Generic[Body]):
    """Decodes one kind of body; a second, slower look says what is wrong with a bad one."""

    def __init__(self, kind: type[Body]) -> None:
        self._kind = kind
        self._fast: msgspec.json.Decoder[Body] = msgspec.json.Decoder(kind)

    def __call__(self, body: bytes) -> Body:
        """Raise `InvalidRequest` for anything but a JSON object with the wanted fields."""
        try:
            str(body, "utf-8")  # msgspec does not look inside what it skips
            return self._fast.decode(body)
        except msgspec.ValidationError:
            raise InvalidRequest(self._complaint(body)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"body: is no valid JSON ({error}): send one JSON object in UTF-8") from None
        except RecursionError:
            raise InvalidRequest("body: is nested too deeply: send a flat JSON object") from None

    def _complaint(self, body: bytes) -> str:
        try:
            raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        except msgspec.ValidationError:
            return "body: must be a JSON object"
        found = (_field_problem(field, raw) for field in msgspec.structs.fields(self._kind))
        return "; ".join(problem for problem in found if problem) or "body: can't be understood"


def _field_problem(field: msgspec.structs.FieldInfo, raw: dict[str, msgspec.Raw]) -> str | None:
    name = field.encode_name
    if name not in raw:
        return f"{name}: is missing, it must be {_wanted(field.type)}" if field.required else None
    try:
        msgspec.json.decode(raw[name], type=field.type)
    except msgspec.ValidationError as error:
        why, _, path = str(error).rpartition(" - at `$")
        if path:
            return f"{name}{path.rstrip('`')}: {why[:1].lower()}{why[1:]}"
        return f"{name}: must be {_wanted(field.type)}"
    return None


def _wanted(kind: Any) -> str:
    for meta in get_args(kind)[1:] if get_origin(kind) is Annotated else ():
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    return "of the documented type"
