"""What can be said of a database file without opening it as a store: nothing is written, nothing is made."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from urllib.parse import quote

import attrs

from streamshard.adapters.stores.sqlite_file import APPLICATION_ID, FILE_SCHEMA

NEWEST = FILE_SCHEMA


@attrs.frozen
class FileSurvey:
    """A file, or where it would be made."""

    path: Path
    there: bool
    writable: bool
    free_bytes: int
    total_bytes: int
    journal: str | None = None
    damage: str | None = None
    """What the integrity check says; None if it found nothing, or there is no file."""
    schema: int | None = None
    ours: bool = True
    trouble: str | None = None
    """Why it can't be read."""


def survey_file(path: Path) -> FileSurvey:
    """Look at a file and its disk; raises nothing for what is wrong with them."""
    folder = next(parent for parent in path.absolute().parents if parent.is_dir())
    disk = shutil.disk_usage(folder)
    there = path.exists()
    writable = os.access(path if there else folder, os.W_OK) and os.access(folder, os.W_OK)
    seen = FileSurvey(path, there, writable, disk.free, disk.total)
    if not there:
        return attrs.evolve(seen, trouble=None if path.absolute().parent.is_dir() else "its directory is not there")
    try:
        return _read(seen)
    except sqlite3.Error as error:
        return attrs.evolve(seen, trouble=str(error))


def _read(seen: FileSurvey) -> FileSurvey:
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(seen.path.absolute()))}?mode=ro", uri=True)) as database:
        found = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
        return attrs.evolve(
            seen,
            damage=None if found == "ok" else str(found),
            journal=str(database.execute("PRAGMA journal_mode").fetchone()[0]),
            schema=int(database.execute("PRAGMA user_version").fetchone()[0]),
            ours=database.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID,
        )
