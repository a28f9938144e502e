"""Faults in what members and coordinators agree on: identity, leases, grants and releases."""

from collections.abc import Mapping
from types import MappingProxyType

from tests.mutants.edits import Edit, Edits, Mutation

EDITS: Mapping[str, Mutation] = MappingProxyType(
    {
        # what a client does with answers
        "a_late_answer_is_taken": Edit("core.session:hear", "if now >= deadline:", "if False:"),
        "an_answer_to_an_earlier_attempt_is_taken": Edit(
            "core.session:hear", "attempt is None or reply.seq != attempt.seq", "attempt is None"
        ),
        "an_attempt_repeats_its_number": Edit(
            "core.session:beat", "Seq(session.seq + 1)", "Seq(session.seq + (session.misses == 0))"
        ),
        "a_lease_is_a_bit_too_long": Edit("core.timing:client_lease_ms", "- margin)", "+ 2 * margin)"),
        "a_draining_shard_is_resumed": Edits(
            (
                Edit(
                    "core.session:_stays",
                    "if shard in reply.assigned:",
                    "if shard in reply.assigned or hold.use is Use.DRAINING and shard in reply.pending:",
                ),
                Edit("core.session:_start", "h.use is Use.WAITING and s", "h.use is not Use.READING and s"),
                Edit(
                    "core.handover:assigned",
                    " and not h.draining",
                    "",
                ),
            )
        ),
        "a_run_that_outlives_its_hold_is_not_listed": Edit(
            "core.session:_listed", "{**holds, **outlived}", "{**holds}"
        ),
        "a_shard_is_started_over_its_earlier_run": Edit("core.session:_start", "s not in session.running and ", ""),
        "a_fenced_member_reads_on": Edit(
            "core.session:_drop_all", "phase=phase, held={}", "phase=phase, held=session.held"
        ),
        "a_lost_lease_makes_a_new_instance": Edit(
            "core.session:expire",
            "return attrs.evolve(session, held={**session.held, **paused}), ",
            "return attrs.evolve(session, held={**session.held, **paused}, phase=Phase.FENCED), ",
        ),
        "an_older_grant_is_taken_back": Edit(
            "core.session:_accept", "g.token > session.last_tokens.get(g.shard, 0)", "True"
        ),
        "what_is_released_is_not_told_at_once": Edit(
            "core.session:finished", "(BeatNow(),) if session.beats else ()", "()"
        ),
        # who is who
        "any_instance_speaks_for_a_name": Edit(
            "core.decide:_stay",
            "member.epoch != beat.epoch or member.instance != beat.instance",
            "False",
        ),
        "a_goodbye_counts_from_anybody": Edit(
            "core.decide:_leave",
            "member.instance == instance and member.state",
            "member.state",
        ),
        "a_goodbye_releases_everything": Edit(
            "core.handover:take_report",
            "if hold is not None:",
            "if hold is not None and beat.intent is not Intent.LEAVE:",
        ),
        "a_late_join_is_admitted_again": Edit(
            "core.decide:_join",
            "(beat.instance in record.longest_leases or beat.instance in record.departed)",
            "False",
        ),
        "a_name_is_taken_over_while_it_is_in_use": Edit(
            "core.membership:name_holder", "if silent > ", "if silent >= 0 * "
        ),
        "a_repeated_report_renews": Edit("core.decide:_seen", "beat.seq <= row.seq and", "False and"),
        "a_rebalance_makes_members_stale": Edit(
            "core.decide:_stay", "member.epoch != beat.epoch", "record.group_epoch != beat.epoch"
        ),
        # releases and grants
        "a_report_from_before_the_grant_releases": Edit(
            "core.handover:_omitted",
            "beat.intent is Intent.JOIN or beat.seq <= holding.seq",
            "beat.intent is Intent.JOIN",
        ),
        "a_join_releases": Edit("core.handover:_omitted", "beat.intent is Intent.JOIN or ", ""),
        "a_fence_frees_at_once": Edit(
            "core.membership:end",
            "ended = attrs.evolve(member, state=state, ended_at=at)",
            "ended = attrs.evolve(member, state=state, ended_at=at)\n"
            "    record = attrs.evolve(record, holdings={s: h for s, h in record.holdings.items()"
            " if h.instance != member.instance})",
        ),
        "an_overrun_rebalance_frees_at_once": Edit(
            "core.handover:lapse",
            "lapsed = {s: attrs.evolve(record.holdings[s], lapsed=True) for s in shards}",
            "return _changed(record, {s: None for s in shards})",
        ),
        "what_lapsed_is_extended": Edit("core.answers:_extended", "not h.lapsed and ", ""),
        "what_lapsed_is_freed_at_once": Edit("core.handover:free_lapsed", "_wait_of(record, h, lease)", "0"),
        "a_grant_is_told_before_its_fence_is_raised": Edit(
            "core.answers:_published", "(shard, h.token) in served.raised or (shard, h.token) in told", "True"
        ),
        "a_grant_is_told_that_no_longer_stands": Edit(
            "core.heartbeats:Heartbeats._raise_fences",
            "known = await self._desk.load_group(known.record.key)",
            "return attrs.evolve(known, record=known.record)",
        ),
        "a_mark_above_is_passed_over": Edit("core.heartbeats:_proves_loss", "return standing or", "return False and"),
        "an_unraised_grant_is_released": Edit("core.handover:_let_go", "if holding.listed or confirmed:", "if True:"),
        # silence
        "an_instance_expires_by_a_stored_time": Edit(
            "core.sight:GroupSight.silent_ms",
            "return Millis(max(0, self.seen_at - seen.since)) if seen else Millis(0)",
            "return Millis(max(0, self.seen_at - min(s.since for s in self.rows.values()))) if seen else Millis(0)",
        ),
        "expiry_does_not_compare_the_row": Edit(
            "core.decide:decide_tick", "instance: sight.rows[instance].mark for instance in silent", ""
        ),
        "an_answer_leaves_before_the_renewal": Edits(
            (
                Edit(
                    "core.heartbeats:Heartbeats._accept",
                    "row = None if decision.row is None else",
                    "row = None if decision.row is None or decision.record is before else",
                ),
                Edit("core.heartbeats:Heartbeats.answer", "recalled(self._desk, key, beat)", "None"),
            )
        ),
        "the_drift_of_clocks_is_forgotten": Edit("core.timing:expiry_wait_ms", "(100 + CLOCK_DRIFT_PERCENT)", "100"),
        "an_expiry_comes_a_little_early": Edit(
            "core.timing:expiry_wait_ms", "(100 + CLOCK_DRIFT_PERCENT)", "(100 - 30)"
        ),
        "a_late_tick_trusts_its_timers": Edit(
            "core.ticking:Ticking._mind_the_time", "self._desk.restart_timers(now)", "pass"
        ),
        # assignment
        "assignment_is_not_sticky": Edit("core.handover:retarget", "assign(record.targets,", "assign({},"),
        "a_balance_of_two_is_good_enough": Edit(
            "core.assignment:_quotas",
            "share.floor + (share.member in rounded_up)",
            "share.floor + 2 * (share.member in rounded_up)",
        ),
        "one_shard_is_never_targeted": Edit(
            "core.handover:grant", "if s not in record.holdings]", "if s not in record.holdings and s != 1]"
        ),
    }
)
