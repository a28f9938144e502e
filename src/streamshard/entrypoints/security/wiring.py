"""From settings to a gate that works."""

import time

from streamshard.entrypoints.http.gate import Gate
from streamshard.entrypoints.security.accounts import AccountFile, Accounts, read_accounts
from streamshard.entrypoints.security.identities import A_HOST_S_SHARE, Identities
from streamshard.entrypoints.security.limits import FixedWindow, Limit
from streamshard.entrypoints.security.settings import ACCOUNTS_TOML, SecuritySettings
from streamshard.entrypoints.security.tokens import Revocations, Tokens
from streamshard.errors import ConfigurationError

_BOUNDLESS = Limit(10**9, 60)


def gate_of(settings: SecuritySettings, coordinator_id: str) -> Gate:
    """Raise `ConfigurationError` for accounts that can't be read, or that are none."""
    return Gate(
        identities=_identities(settings) if settings.has_accounts else None,
        changes=None if settings.changes is None else FixedWindow(settings.changes, time.monotonic),
        coordinator_id=coordinator_id,
        proxies=settings.proxies,
        open_metrics=settings.open_metrics,
    )


def _identities(settings: SecuritySettings) -> Identities:
    accounts = _accounts(settings)
    if accounts.decoy() is None:
        raise ConfigurationError(f"{settings.accounts or ACCOUNTS_TOML}: lists no account: nobody could do anything")
    if settings.secret is None:
        raise ConfigurationError("--token-secret-file: is needed with accounts: tokens are signed with it")
    logins = settings.logins or _BOUNDLESS
    revoked = Revocations(settings.revoked, time.time)
    return Identities(
        accounts,
        Tokens(settings.secret, settings.token_lifetime_s, time.time, revoked),
        FixedWindow(logins, time.monotonic),
        FixedWindow(Limit(logins.count * A_HOST_S_SHARE, logins.seconds), time.monotonic),
    )


def _accounts(settings: SecuritySettings) -> Accounts:
    if settings.accounts is not None:
        return AccountFile(settings.accounts)
    return Accounts(read_accounts(settings.accounts_toml or "", ACCOUNTS_TOML))
