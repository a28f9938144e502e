"""What the benchmarks of records share: a run's rate, and the processor time of client and server.

Nothing but the standard library: it is also run by the Pythons of other projects (`peers.py`).
"""

import gc
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

PAYLOAD = b"x" * 192  # with the field's name and the framing of a small record: about 200 bytes
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

Load = Callable[[int], Awaitable[None]]


class Sample(NamedTuple):
    """One run: records per second, and microseconds of processor time per record."""

    rate: float
    client_us: float
    server_us: float


def server_seconds(pid: int) -> float:
    """Processor time that a process has used, as Linux counts it."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        words = stat.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * TICK_S


def client_seconds() -> float:
    """Processor time that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(load: Load, records: int, pid: int) -> Sample:
    """Run one load once."""
    gc.collect()
    client, server, began = client_seconds(), server_seconds(pid), time.perf_counter()
    await load(records)
    took, micros = time.perf_counter() - began, 1e6 / records
    return Sample(records / took, (client_seconds() - client) * micros, (server_seconds(pid) - server) * micros)


def median(samples: Sequence[Sample]) -> Sample:
    """Each figure's median."""
    return Sample(*(statistics.median(figures) for figures in zip(*samples, strict=True)))


def percentile(sorted_figures: Sequence[float], share: float) -> float:
    """The figure that so large a share of them does not exceed."""
    return sorted_figures[min(len(sorted_figures) - 1, int(len(sorted_figures) * share))]


def table(rows: dict[str, Sample]) -> None:
    """Print what each contender reached."""
    for name, (rate, client, server) in rows.items():
        print(f"{name:40} {rate:9,.0f} records/s   client {client:6.1f} us   server {server:5.1f} us")


def goal(what: str, reached: float, wanted: float, *, at_most: bool = False) -> None:
    """Print a ratio beside what it is to be."""
    met = reached <= wanted if at_most else reached >= wanted
    print(f"{what:64} {reached:7.2f}   wanted {'<=' if at_most else '>='} {wanted:5.1f}   {'yes' if met else 'NO'}")
