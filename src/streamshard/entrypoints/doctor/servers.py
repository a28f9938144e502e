"""What a survey of a Redis server means for streamshard: pure judgement."""

from collections.abc import Iterator

from streamshard.adapters.redis_acl import Role
from streamshard.adapters.redis_survey import Survey
from streamshard.entrypoints.doctor.findings import Finding, Place

OLDEST = (7, 0)
CLOCK_MS = 1_000
CROWDED, FULL = 0.7, 0.95
SHOWN_LACKS = 4
INFO = "ask with an account that may INFO"


def judged(seen: Survey, role: Role, *, metadata: bool = False, expected: int = 0) -> Iterator[Finding]:
    """Every check of one server; ``metadata``: it keeps it; ``expected``: connections that are still to come."""
    at = Place(seen.where)
    yield _version(seen, at)
    yield _features(seen, at)
    yield _scripts(seen, at, role)
    yield _role(seen, at)
    yield _eviction(seen, at, metadata=metadata)
    yield _persistence(seen, at, metadata=metadata)
    yield _replicas(seen, at)
    yield _account(seen, at)
    yield _clock(seen, at)
    yield _connections(seen, at, expected)


def _version(seen: Survey, at: Place) -> Finding:
    if seen.release is not None and seen.release < OLDEST:
        return at.fail("version", seen.name, "use Redis 7 or later, or Valkey")
    if "redis_version" not in seen.info:
        return at.warn("version", "the server does not say what it is", INFO)
    return at.ok("version", seen.name)


def _features(seen: Survey, at: Place) -> Finding:
    told = {
        "XACKDEL": ("acknowledges and deletes in one step", "what is acknowledged stays until it is trimmed"),
        "XNACK": ("records can be given back", "what fails is handed over again after redeliver_after"),
        "XCFGSET": ("takes a record once", "publish tells MaybeWritten where it can't know"),
    }
    names = {"XACKDEL": "XACKDEL", "XNACK": "XNACK", "XCFGSET": "idempotent XADD"}
    parts = [
        f"{names[name]}: {has}" if name in seen.newer else f"no {names[name]}: {instead}"
        for name, (has, instead) in told.items()
    ]
    return at.ok("features", "; ".join(parts))


def _scripts(seen: Survey, at: Place, role: Role) -> Finding:
    if not seen.scripts:
        return at.ok("scripts", "run")
    if role not in (Role.CONSUMER, Role.COORDINATOR):
        return at.ok("scripts", f"not allowed, and not needed by a {role.value}")
    remedy = "allow the account EVAL and EVALSHA: every fenced operation is a script"
    return at.fail("scripts", f"don't run: {seen.scripts}", remedy)


def _role(seen: Survey, at: Place) -> Finding:
    match seen.info.get("role"):
        case "master":
            return at.ok("role", "master")
        case None:
            return at.warn("role", "the server does not say whether it is a master", INFO)
        case role:
            return at.fail("role", f"a {role}, which takes no writes", "name the master, or its sentinels")


def _eviction(seen: Survey, at: Place, *, metadata: bool) -> Finding:
    policy, limit = seen.info.get("maxmemory_policy"), seen.info.get("maxmemory")
    remedy = "set maxmemory-policy noeviction"
    if policy is None:
        return at.warn("eviction", "the server does not say whether it evicts", f"{INFO}, or {remedy}")
    if policy == "noeviction":
        return at.ok("eviction", "noeviction")
    if limit == "0":
        return at.warn("eviction", f"{policy}, though without a maxmemory nothing is evicted yet", remedy)
    lost = "metadata" if metadata else "shards with their records"
    return at.fail("eviction", f"{policy}: {lost} may be thrown away", remedy)


def _persistence(seen: Survey, at: Place, *, metadata: bool) -> Finding:
    info = seen.info
    for field, what in (("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")):
        if info.get(field, "ok") != "ok":
            return at.fail("persistence", f"the last {what} could not be written", "see the server's log and disk")
    if "aof_enabled" not in info:
        return at.warn("persistence", "the server does not say whether it persists", INFO)
    if info["aof_enabled"] == "1":
        return at.ok("persistence", f"append-only file, fsync {seen.tuned.get('appendfsync', 'not told')}")
    lost = "commits: groups start again in quarantine" if metadata else "records that were accepted"
    saves = seen.tuned.get("save")
    how = "nothing is written to disk" if saves == "" else "snapshots only"
    return at.warn("persistence", f"{how}: a crash loses {lost}", "set appendonly yes")


def _replicas(seen: Survey, at: Place) -> Finding:
    count, least = int(seen.info.get("connected_slaves", "0")), seen.tuned.get("min-replicas-to-write")
    if count == 0:
        return at.ok("replicas", "none: nobody takes over if it goes")
    if least == "0":
        return at.warn(
            "replicas",
            f"{count}, and none is waited for: a master that was cut off goes on taking writes that are lost later",
            "set min-replicas-to-write 1",
        )
    return at.ok("replicas", f"{count}, min-replicas-to-write {least or 'not told'}")


def _account(seen: Survey, at: Place) -> Finding:
    remedy = "give it what `streamshard acl-rules` prints"
    if seen.lacking is None:
        return at.warn("account", "what it may do can't be asked for without scripts", f"{remedy}, to be sure")
    if not seen.lacking:
        return at.ok("account", "may do all that its role needs")
    tries = [command for need in seen.lacking for command in need.commands]
    more = f" and {len(tries) - SHOWN_LACKS} more" if len(tries) > SHOWN_LACKS else ""
    return at.fail("account", f"may not {', '.join(tries[:SHOWN_LACKS])}{more}", remedy)


def _clock(seen: Survey, at: Place) -> Finding:
    if seen.clock_ahead_ms is None:
        return at.ok("clock", "not told: the account may not ask TIME")
    ahead, doubt = seen.clock_ahead_ms, seen.round_trip_ms / 2
    if abs(ahead) - doubt <= CLOCK_MS:
        return at.ok("clock", f"{abs(ahead):.0f} ms {'ahead of' if ahead > 0 else 'behind'} this machine's")
    told = f"{abs(ahead) / 1000:.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's: ages are wrong by it"
    return at.warn("clock", told, "let NTP set both; ownership does not depend on it")


def _connections(seen: Survey, at: Place, expected: int) -> Finding:
    limit, used = seen.info.get("maxclients"), seen.info.get("connected_clients")
    if limit is None or used is None:
        return at.warn("connections", "the server does not say how many it takes", INFO)
    total = int(used) + expected
    told = f"{used} of {limit}" + (f", and {expected} to come" if expected else "")
    remedy = "raise maxclients (and the limit of open files), or run fewer processes"
    if total > FULL * int(limit):
        return at.fail("connections", told, remedy)
    return at.warn("connections", told, remedy) if total > CROWDED * int(limit) else at.ok("connections", told)
