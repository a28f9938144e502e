"""What backends, logs and inspectors promise they keep with accounts of least privilege, and are refused nothing."""

from tests.integration.streams.test_append_contract import TestAppendMany
from tests.integration.streams.test_backend_contract import TestRaiseFences, TestRaiseLayouts, TestReading
from tests.integration.streams.test_drop_contract import (
    test_a_key_that_came_back_in_a_dropped_life_is_dropped_again,
    test_whatever_is_on_the_key_goes_and_the_fence_says_so,
)
from tests.integration.streams.test_inspector_contract import (
    test_an_empty_shard_is_zero_and_not_unknown,
    test_pages_follow_one_another_without_a_gap,
    test_what_is_read_and_not_acknowledged_and_what_is_not_read_are_counted_apart,
)
from tests.integration.streams.test_log_contract import TestAppend, TestRead, TestWait
from tests.integration.streams.test_pending_contract import TestAcknowledge, TestClaim, TestDropConsumer
from tests.integration.streams.test_provision_contract import TestProvision
from tests.integration.streams.test_redelivery_contract import (
    TestAbilities,
    TestBury,
    TestDeliver,
    TestGiveBack,
    TestSurvey,
)
from tests.integration.streams.test_seal_contract import TestSeal, TestTidy
from tests.integration.streams.test_trim_contract import (
    test_what_every_group_has_acknowledged_goes_and_the_rest_stays,
    test_what_others_removed_unread_is_counted_once_and_the_lag_is_set_right,
)

__all__ = [
    "TestAbilities",
    "TestAcknowledge",
    "TestAppend",
    "TestAppendMany",
    "TestBury",
    "TestClaim",
    "TestDeliver",
    "TestDropConsumer",
    "TestGiveBack",
    "TestProvision",
    "TestRaiseFences",
    "TestRaiseLayouts",
    "TestRead",
    "TestReading",
    "TestSeal",
    "TestSurvey",
    "TestTidy",
    "TestWait",
    "test_a_key_that_came_back_in_a_dropped_life_is_dropped_again",
    "test_an_empty_shard_is_zero_and_not_unknown",
    "test_pages_follow_one_another_without_a_gap",
    "test_what_every_group_has_acknowledged_goes_and_the_rest_stays",
    "test_what_is_read_and_not_acknowledged_and_what_is_not_read_are_counted_apart",
    "test_what_others_removed_unread_is_counted_once_and_the_lag_is_set_right",
    "test_whatever_is_on_the_key_goes_and_the_fence_says_so",
]
