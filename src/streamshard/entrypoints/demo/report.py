"""The verdict for people and for scripts."""

from collections.abc import Mapping
from pathlib import Path

from streamshard.entrypoints.demo.plan import TIMING
from streamshard.entrypoints.demo.timeline import Timeline
from streamshard.entrypoints.demo.verdict import Verdict

SHOWN = 5


def read_ledger(folder: Path) -> dict[str, str]:
    """The texts of a run's files by name, as `judge` wants them."""
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.jsonl"))}


def tell(verdict: Verdict, timeline: Timeline) -> None:
    """One line a check, and the conclusion."""
    timeline.plain("")
    for check in verdict.checks:
        timeline.plain(f"{'ok' if check.ok else 'FAILED':<8}{check.told}", "green" if check.ok else "bold red")
        for line in check.wrong[:SHOWN]:
            timeline.plain(f"          {line}", "red")
        if len(check.wrong) > SHOWN:
            timeline.plain(f"          and {len(check.wrong) - SHOWN:,} more like it", "red")
    for why in verdict.void:
        timeline.plain(f"{'VOID':<8}{why}", "bold yellow")
    timeline.plain("")
    timeline.plain(conclusion(verdict), "bold green" if verdict.ok else "bold red")


def conclusion(verdict: Verdict) -> str:
    """One sentence."""
    broken = [check.name for check in verdict.checks if not check.ok]
    if broken:
        return f"FAILED: {', '.join(broken)} did not hold."
    if verdict.void:
        return f"Void: the run proves too little, because {'; '.join(verdict.void)}."
    rate = verdict.figures["recordsPerSecond"]
    return f"Nothing was lost: {verdict.figures['published']:,} records at {rate:,.0f} a second, all checks hold."


def as_json(verdict: Verdict, server: str, seconds: float, ledger: Path | None) -> Mapping[str, object]:
    """The result for scripts."""
    checks = [
        {"name": check.name, "ok": check.ok, "told": check.told, "wrong": list(check.wrong[:SHOWN])}
        for check in verdict.checks
    ]
    return {
        "ok": verdict.ok,
        "conclusion": conclusion(verdict),
        "seconds": round(seconds, 1),
        "server": server,
        "timing": dict(TIMING),
        "figures": dict(verdict.figures),
        "checks": checks,
        "void": list(verdict.void),
        "ledger": None if ledger is None else str(ledger),
    }
