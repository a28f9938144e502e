"""Databases for the tests of the SQLite store."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

from streamshard.adapters.stores.sqlite import SqliteStore
from streamshard.testing.samples import (
    CREATE,
    CREATE_STREAM,
    a_row,
    put,
)


def play(path: Path, scenario: Callable[[SqliteStore], Awaitable[None]], busy_timeout_ms: int = 5_000) -> None:
    """Run one scenario on the database at ``path``."""

    async def played() -> None:
        store = await SqliteStore.open(path, busy_timeout_ms)
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(played())


def sql(path: Path, *statements: str) -> None:
    """Change the database behind the store's back."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


def filled(path: Path) -> Path:
    """A database that knows a stream, a group and a row."""
    play(path, lambda store: put(store, CREATE_STREAM, CREATE, row=a_row()))
    return path
