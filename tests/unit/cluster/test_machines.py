"""Clusters that anything may befall: after every step the invariants are judged, at the end all must be well."""

from tests.unit.cluster.hazards import hunting
from tests.unit.cluster.machines import Calm, Churn, Resharding, StoreLoss, TrimmingGroups, TrimmingShards

TestNothingMovesWhileMembersStay = Calm.TestCase
TestNothingMovesWhileMembersStay.settings = hunting(30)

TestMembersComeAndGo = Churn.TestCase
TestMembersComeAndGo.settings = hunting(30)

TestShardsComeAndGo = Resharding.TestCase
TestShardsComeAndGo.settings = hunting(30)

TestTheStoreForgets = StoreLoss.TestCase
TestTheStoreForgets.settings = hunting(30)

TestShardsAreTrimmedAsTheyComeAndGo = TrimmingShards.TestCase
TestShardsAreTrimmedAsTheyComeAndGo.settings = hunting(30)

TestShardsAreTrimmedWhileTheStoreForgets = TrimmingGroups.TestCase
TestShardsAreTrimmedWhileTheStoreForgets.settings = hunting(30)
