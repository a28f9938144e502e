"""What a server says of itself and of its commands."""


def server_name(told: object) -> str:
    """Name and version from the answer to ``INFO server``, such as ``Valkey 9.1.0``; an error names none."""
    text = told.decode(errors="replace") if isinstance(told, bytes) else ""
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    for fact, name in (("valkey_version", "Valkey"), ("redis_version", "Redis")):
        if fact in facts:
            return f"{name} {facts[fact]}"
    return "a server that does not say which it is"


def takes_once(told: object) -> bool:
    """Whether a server knows a command that came with idempotent appends, by its answer to ``COMMAND INFO XCFGSET``."""
    return isinstance(told, list) and bool(told) and bool(told[0])


def commands_known(told: object) -> tuple[bool, bool]:
    """Which of the two commands asked for ``COMMAND INFO`` knows; of an unknown one it says nothing."""
    if not isinstance(told, list) or len(told) != 2:  # noqa: PLR2004
        return False, False
    return bool(told[0]), bool(told[1])
