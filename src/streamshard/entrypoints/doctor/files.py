"""What a survey of a metadata file means: pure judgement."""

from collections.abc import Iterator

from streamshard.adapters.stores.sqlite_survey import NEWEST, FileSurvey
from streamshard.entrypoints.doctor.findings import Finding, Place

MIB = 1 << 20
LITTLE, NEXT_TO_NOTHING = 1024 * MIB, 64 * MIB


def judged(seen: FileSurvey) -> Iterator[Finding]:
    """Every check of a SQLite file and its disk."""
    at = Place(str(seen.path))
    yield _space(seen, at)
    if not seen.writable:
        yield at.fail("access", "this user may not write it, or its directory", "give the coordinator's user both")
    if seen.trouble is not None:
        yield at.fail("database", f"can't be read: {seen.trouble}", "name another file, or restore it from a backup")
    elif not seen.there:
        yield at.ok("database", "not there yet: a coordinator makes it at its first start")
    else:
        yield from _database(seen, at)


def _database(seen: FileSurvey, at: Place) -> Iterator[Finding]:
    if seen.damage is not None:
        yield at.fail("database", f"is damaged: {seen.damage}", "stop the coordinators, and restore it from a backup")
    elif not seen.ours:
        yield at.fail("database", "belongs to another program", "name another file")
    else:
        yield at.ok("database", "sound")
    if (seen.schema or 0) > NEWEST:
        yield at.fail("schema", f"{seen.schema}, which a newer version made", "run that version")
    if seen.journal != "wal":
        remedy = "keep it on a local disk, and let a coordinator open it"
        yield at.warn("journal", f"mode {seen.journal} instead of wal", remedy)
    else:
        yield at.ok("journal", "wal")


def _space(seen: FileSurvey, at: Place) -> Finding:
    told = f"{seen.free_bytes // MIB:,} MiB free of {seen.total_bytes // MIB:,}"
    remedy = "make room: a full disk stops every change"
    if seen.free_bytes < NEXT_TO_NOTHING:
        return at.fail("disk", told, remedy)
    return at.warn("disk", told, remedy) if seen.free_bytes < LITTLE else at.ok("disk", told)
