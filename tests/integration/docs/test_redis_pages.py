"""The pages on Redis say what the code says: schemes and parameters of URLs, and the permissions of each role."""

import pytest

from streamshard.adapters.redis_acl import TABLE, Need, Role, keys
from streamshard.adapters.redis_url import PARAMETERS, SCHEMES
from streamshard.core.ids import StreamPrefix
from tests.integration.docs.pages import DOCS, quoted, table

URLS = (DOCS / "reference" / "redis-urls.md").read_text()
ACCOUNTS = (DOCS / "how-to" / "limit-accounts.md").read_text()
ORDERS = (StreamPrefix("orders"),)


def test_every_scheme_is_listed() -> None:
    assert {quoted(row[0])[0] for row in table(URLS, "Schemes")} == set(SCHEMES)


def test_every_parameter_is_listed_in_order() -> None:
    assert tuple(quoted(row[0])[0] for row in table(URLS, "Parameters")) == PARAMETERS


@pytest.mark.parametrize("role", Role)
def test_every_permission_is_listed_with_its_keys_and_its_reason(role: Role) -> None:
    listed = [(quoted(row[0]), quoted(row[1]), row[2]) for row in table(ACCOUNTS, role.value)]

    expected = [
        ([] if number else list(keys(grant, ORDERS)), list(need.commands), reason(need))
        for grant in TABLE[role]
        for number, need in enumerate(grant.needs)
    ]
    assert listed == expected


def reason(need: Need) -> str:
    """Why, and where not everywhere."""
    if need.since is not None:
        return f"{need.why} (Redis {need.since[0]}.{need.since[1]})"
    return need.why if need.topology is None else f"{need.why} ({need.topology.value})"
