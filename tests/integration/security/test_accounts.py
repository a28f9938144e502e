"""The accounts file: what may stand in it, and that a change acts at once."""

import logging
import os
from pathlib import Path

import pytest

from streamshard.entrypoints.security.accounts import Account, AccountFile, read_accounts
from streamshard.entrypoints.security.roles import Role
from streamshard.errors import ConfigurationError
from tests.integration.security.doors import HASH

ANN = f'[[account]]\nname = "ann"\nhash = "{HASH}"\nroles = ["ADMIN"]\n'


def test_an_account_has_a_name_a_hash_roles_and_perhaps_prefixes() -> None:
    text = (
        ANN + f'[[account]]\nname = "b"\nhash = "{HASH}"\nroles = ["MONITOR", "MEMBER"]\nprefixes = ["orders", "x-*"]\n'
    )

    assert read_accounts(text, "f") == {
        "ann": Account("ann", HASH, frozenset({Role.ADMIN})),
        "b": Account("b", HASH, frozenset({Role.READ, Role.MEMBER}), ("orders", "x-*")),
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("name", "nmae"), "nmae: is not known: did you mean name?"),
        (('"ann"', "5"), "name: must be text"),
        (('"ann"', '"a:b"'), "name: has a colon"),
        (('"ann"', '""'), "name: is empty"),
        ((HASH, "plain"), "hash: must be what `streamshard auth hash` prints"),
        (('["ADMIN"]', '["ADMN"]'), "did you mean ADMIN?"),
        (('["ADMIN"]', "[]"), "roles: must be a list"),
        (('["ADMIN"]', '"ADMIN"'), "roles: must be a list"),
        (("roles", "prefixes = []\nroles"), "prefixes: is empty"),
        (("roles", 'prefixes = "a"\nroles'), "prefixes: must be a list"),
        (('["ADMIN"]', '["ADMIN"'), "is no TOML"),
        (("[[account]]", "[[accounts]]"), "nothing but tables called [[account]]"),
        (("[[account]]", "[account]"), "nothing but tables called [[account]]"),
        (("roles = ", "x = "), "x: is not known"),
        (('roles = ["ADMIN"]', ""), "roles: is missing"),
    ],
)
def test_what_is_wrong_is_named_and_no_hash_is_shown(change: tuple[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_accounts(ANN.replace(*change, 1), "accounts.toml")

    assert told in caught.value.message
    assert caught.value.message.startswith("accounts.toml: ")
    assert HASH not in caught.value.message


def test_a_name_stands_there_once() -> None:
    with pytest.raises(ConfigurationError, match="account 2: name: stands there twice"):
        read_accounts(ANN + ANN, "f")


def test_a_hash_is_in_no_repr() -> None:
    assert HASH not in repr(read_accounts(ANN, "f"))


def test_a_file_is_read_again_as_soon_as_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "accounts.toml"
    path.write_text(ANN)
    accounts = AccountFile(path)
    assert accounts.find("ann") is not None

    path.write_text(ANN.replace("ann", "bob"))
    assert (accounts.find("ann"), accounts.find("bob") is not None) == (None, True)

    fresh = tmp_path / "fresh"
    fresh.write_text("")
    os.replace(fresh, path)
    assert (accounts.find("bob"), accounts.decoy()) == (None, None)


def test_a_file_that_can_t_be_read_changes_nothing_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "accounts.toml"
    path.write_text(ANN)
    accounts = AccountFile(path)

    with caplog.at_level(logging.ERROR):
        path.write_text("[[")
        assert accounts.find("ann") is not None
        path.write_bytes(b"\xff")
        assert accounts.find("ann") is not None
        path.unlink()
        assert accounts.find("ann") is not None
        accounts.reload()

    assert [message.startswith("accounts stay as they were") for message in caplog.messages] == [True] * 3


def test_a_file_that_is_not_there_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be read: No such file"):
        AccountFile(tmp_path / "none")
