"""Whatever a handler does to its process, its records are handled by somebody, and the process ends as it should."""

import signal
from pathlib import Path

from streamshard import SyncProducer
from tests.integration.faults.notes import lines_of
from tests.integration.faults.rig import PATIENCE_S, Stage, stage

BY_THEMSELVES = {
    ("async", "leaves"): 3,
    ("sync", "leaves"): 3,
    ("async", "throws"): 1,
    ("sync", "throws"): 1,
}
"""Those that end before anybody asks them to, with their exit codes."""

WHEN_ASKED = (
    ("async", "can't be cancelled"),
    ("sync", "hangs"),
    ("async", "sleeps"),
    ("async", "forks"),
    ("sync", "forks"),
    ("async", "cancels itself"),
    ("async", "waits for what is cancelled"),
)
PATIENT_S = 3_600.0
RECORDS = 200


def odd_one(played: Stage, kind: str, oddity: str) -> str:
    """Start one; its name."""
    name = f"{kind} that {oddity}".replace(" ", "-").replace("'", "")
    drain = PATIENT_S if oddity == "sleeps" else 0.5
    played.start(name, "odd", kind=kind, group="billing", oddity=oddity, drain=drain)
    return name


def test_whatever_a_handler_does_nothing_is_lost_and_its_process_ends_as_it_should(tmp_path: Path) -> None:
    with stage(tmp_path) as played:
        everybody = {who: odd_one(played, *who) for who in (*BY_THEMSELVES, *WHEN_ASKED)}
        played.until(lambda: len(played.owners_of("billing")) == len(everybody), "all to have joined", 60)
        with SyncProducer("orders", "billing", played.url, played.redis_url) as orders:
            for number in range(RECORDS):
                orders.publish(f"key-{number}", {"seq": str(number)})

        codes = {who: played.workers[everybody[who]].process.wait(PATIENCE_S) for who in BY_THEMSELVES}
        played.until(lambda: all(_met(played, everybody[who]) for who in WHEN_ASKED), "each to have met a record")
        for who in WHEN_ASKED:
            played.workers[everybody[who]].process.send_signal(signal.SIGTERM)
        asked = {
            who: played.workers[everybody[who]].process.wait(PATIENCE_S) for who in WHEN_ASKED if who[1] != "sleeps"
        }
        still = played.workers[everybody["async", "sleeps"]]
        waits = still.code is None
        still.process.send_signal(signal.SIGTERM)
        asked["async", "sleeps"] = still.process.wait(PATIENCE_S)
        everybody["async", "sane"] = odd_one(played, "async", "is sane")
        played.until(lambda: len(_acknowledged(played)) == RECORDS, "everything to be handled")
        played.dismiss(played.workers[everybody["async", "sane"]])

        refused = [_refused(played, everybody[kind, "forks"]) for kind in ("async", "sync")]
        assert codes == BY_THEMSELVES
        assert (waits, asked) == (True, dict.fromkeys(asked, 0))
        assert refused == [["LeaseLost", "ConfigurationError"]] * 2


def _met(played: Stage, name: str) -> bool:
    return any(line["kind"] == "odd" for line in lines_of(played.notes(name)))


def _acknowledged(played: Stage) -> set[str]:
    return {line["seq"] for name in played.workers for line in lines_of(played.notes(name)) if line["kind"] == "acked"}


def _refused(played: Stage, name: str) -> list[str]:
    return [line.get("why", "nothing") for line in lines_of(played.notes(name)) if line["kind"] in ("refused", "done")]
