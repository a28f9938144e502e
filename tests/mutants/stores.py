"""Faults in what is done about a store that forgot, and in how records are committed."""

from collections.abc import Mapping
from types import MappingProxyType

from tests.mutants.edits import Edit, Mutation

EDITS: Mapping[str, Mutation] = MappingProxyType(
    {
        "a_lost_hold_is_not_adopted": Edit("core.correction:adopt", "if _lost(record, h, instance)", "if False"),
        "an_adopted_hold_is_kept_for_good": Edit("core.correction:_adopted", "lapsed=True", "lapsed=False"),
        "an_update_creates": Edit(
            "adapters.stores.memory:MemoryStore._compare_records",
            "if not _is(self._shelf.groups.get(group.key), group.expected):",
            "if group.key in self._shelf.groups and not _is(self._shelf.groups[group.key], group.expected):",
        ),
        "a_record_is_put_without_comparing": Edit(
            "adapters.stores.memory:_is", "return version is expected or version == expected", "return True"
        ),
        "versions_alone_tell_what_was_lost": Edit(
            "core.correction:_known",
            "version.nonce in record.ring or version.revision < oldest_remembered",
            "version.revision <= record.version.revision",
        ),
        "a_lost_view_is_passed_over": Edit("core.decide:decide", "if claim is Claim.LOST:", "if False:"),
        "a_wild_claim_stops_the_group": Edit(
            "core.correction:judge",
            "Claim.WILD if beat.metadata_version > record.metadata_version",
            "Claim.LOST if beat.metadata_version > record.metadata_version",
        ),
        "a_first_load_is_trusted": Edit(
            "core.desk:Desk.prove", "if known.sight.proven and known.lost is None:", "if known.lost is None:"
        ),
        "marks_that_can_t_be_read_prove_nothing": Edit(
            "core.desk:Desk.prove",
            'lost = lost or LostWrites("Redis could not be asked whether the record is the newest")',
            "marks = {}",
        ),
        "quarantine_ends_by_anybody_s_clock": Edit(
            "core.correction:quarantine_over", "now - sight.lineage_since >= expiry_wait_ms(longest)", "True"
        ),
        "grants_are_made_in_quarantine": Edit(
            "core.decide:_reconcile", "if after.quarantine is None and standing", "if standing"
        ),
        "stale_holdings_survive_a_loss": Edit(
            "core.correction:start_lineage", "h.lapsed or _stale(h, marks.get(s, Token(0)))", "h.lapsed"
        ),
        "a_reconnection_is_not_noticed": Edit(
            "core.desk:Desk._take_in", "known is None or known.sight.source != snapshot.source", "known is None"
        ),
        "an_unknown_commit_is_believed": Edit(
            "core.desk:Desk._look_up", "if nonce not in found.record.ring and not written:", "if False:"
        ),
        "a_deleted_group_leaves_no_tombstone_tokens": Edit(
            "core.groups:bury_group", "last_tokens=record.last_tokens", "last_tokens={}"
        ),
    }
)
