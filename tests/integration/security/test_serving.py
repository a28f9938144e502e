"""``streamshard serve`` with accounts: what keeps it from starting, what it is like from outside."""

import asyncio
import base64
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trustme

from streamshard import HttpCoordinator, StreamApp
from streamshard.adapters.client.credentials import Credentials
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.ids import GroupKey, GroupName, StreamPrefix
from streamshard.errors import ConfigurationError, Forbidden, ListenerRejected, Unauthenticated
from tests.integration.cli.processes import COMMAND, IN_MEMORY, Served, clean_environment, serving, streamshard
from tests.integration.http.service import ASKED, GROUP
from tests.integration.security.doors import HASH, PASSWORD, basic

ROLES = {"ann": '["ADMIN"]', "app": '["MEMBER"]\nprefixes = ["orders"]', "eve": '["MEMBER"]\nprefixes = ["other"]'}
SECRET = "0123456789abcdef0123456789abcdef"
KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
PATIENCE_S = 20


def listed(*names: str) -> str:
    return "".join(f'[[account]]\nname = "{name}"\nhash = "{HASH}"\nroles = {ROLES[name]}\n' for name in names)


@attrs.frozen
class Secured:
    """A coordinator with accounts, as a process."""

    served: Served
    accounts: Path
    folder: Path

    @property
    def url(self) -> str:
        return self.served.url.replace("0.0.0.0", "127.0.0.1")

    def status(self, name: str, path: str = "/coord/v1/streams") -> int:
        return httpx.get(self.url + path, headers=basic(name), trust_env=False).status_code

    def token(self, name: str) -> str:
        asked = {"username": name, "password": PASSWORD}
        answer = httpx.post(self.url + "/coord/v1/auth/login", json=asked, trust_env=False)
        return str(answer.json()["accessToken"])


@contextmanager
def secured(folder: Path, *more: str) -> Iterator[Secured]:
    accounts, secret = folder / "accounts.toml", folder / "secret"
    accounts.write_text(listed(*ROLES))
    secret.write_text(SECRET + "\n")
    files = ("--accounts", str(accounts), "--token-secret-file", str(secret))
    with serving(*IN_MEMORY, *files, *more) as served:
        yield Secured(served, accounts, folder)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One for all who only ask."""
    with secured(tmp_path_factory.mktemp("secured"), "--host", "0.0.0.0") as door:
        httpx.post(door.url + GROUP, json=ASKED, headers=basic("ann"), trust_env=False)
        yield door


def test_without_accounts_it_says_that_whoever_can_connect_may_do_everything() -> None:
    answer = streamshard("serve", "--host", "0.0.0.0", *IN_MEMORY)

    assert answer.returncode == 2
    assert "there are no accounts" in answer.stderr


@pytest.mark.parametrize(
    ("accounts", "environment", "code", "told"),
    [
        (listed("ann"), {}, 2, "--token-secret-file: is needed with accounts"),
        (listed("ann"), {"STREAMSHARD_TOKEN_SECRET": "x" * 31}, 2, "the secret must be at least 32 bytes long"),
        ("", {"STREAMSHARD_TOKEN_SECRET": SECRET}, 1, "lists no account"),
        ("[[", {"STREAMSHARD_TOKEN_SECRET": SECRET}, 1, "is no TOML"),
        (listed("ann").replace("ADMIN", "ADMN"), {"STREAMSHARD_TOKEN_SECRET": SECRET}, 1, "did you mean ADMIN?"),
    ],
)
def test_it_does_not_start_with_accounts_that_protect_nothing(
    accounts: str, environment: dict[str, str], code: int, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "accounts.toml"
    file.write_text(accounts)

    answer = streamshard("serve", "--port", "0", "--accounts", str(file), *IN_MEMORY, environment=environment)

    assert (answer.returncode, told in answer.stderr) == (code, True), answer.stderr
    assert len(answer.stderr.splitlines()) <= 2
    assert SECRET not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--tls-cert", "x"), "--tls-cert: goes with --tls-key"),
        (("--login-limit", "many"), "--login-limit: must be off, or a number and a duration"),
        (("--trusted-proxies", "everybody"), "--trusted-proxies: must be addresses or networks"),
        (("--metrics-access", "all"), "--metrics-access: must be read or open"),
        (("--token-secret-file", "/none/such"), "--token-secret-file: the file can't be read"),
    ],
)
def test_a_bad_option_is_a_usage_error(arguments: tuple[str, ...], told: str) -> None:
    answer = streamshard("serve", "--port", "0", *arguments, *IN_MEMORY)

    assert (answer.returncode, told in answer.stderr) == (2, True), answer.stderr


def test_with_accounts_it_may_listen_everywhere_under_any_name(door: Secured) -> None:
    headers = {**basic("ann"), "host": "coordinator.example.com"}

    assert "0.0.0.0" in door.served.url
    assert httpx.get(door.url + "/coord/v1/streams", headers=headers, trust_env=False).status_code == 200
    assert httpx.get(door.url + "/coord/v1/streams", trust_env=False).status_code == 401
    assert httpx.get(door.url + "/readyz", trust_env=False).status_code == 200


def test_a_removed_account_is_out_at_once_and_one_that_is_added_is_in(tmp_path: Path) -> None:
    with secured(tmp_path) as door:
        assert (door.status("ann"), door.status("eve")) == (200, 403)
        door.accounts.write_text(listed("app"))
        assert (door.status("ann"), door.status("app")) == (401, 403)
        door.accounts.write_text(listed("ann"))
        door.served.process.send_signal(signal.SIGHUP)
        assert (door.status("ann"), door.status("app")) == (200, 401)
        assert door.served.process.poll() is None


def test_tls_is_spoken_and_a_renewed_certificate_is_taken_at_the_signal(tmp_path: Path) -> None:
    authority, certificate, key = trustme.CA(), tmp_path / "cert.pem", tmp_path / "key.pem"

    def issue(name: str) -> None:
        made = authority.issue_cert("127.0.0.1", name)
        certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        key.write_bytes(made.private_key_pem.bytes())

    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issue("first.example")
    with secured(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as door:
        url = door.url
        answer = httpx.get(url + "/coord/v1/streams", headers=basic("ann"), verify=trusted, trust_env=False)
        assert (url.startswith("https://"), answer.status_code) == (True, 200)
        environment = {"STREAMSHARD_CA_FILE": str(tmp_path / "ca.pem"), "STREAMSHARD_URL": url}
        environment |= {"STREAMSHARD_USER": "ann", "STREAMSHARD_PASSWORD": PASSWORD}
        assert streamshard("streams", "list", environment=environment).returncode == 0
        assert streamshard("streams", "list", "--url", url).returncode == 6

        issue("second.example")
        door.served.process.send_signal(signal.SIGHUP)
        assert "second.example" in _names(trusted, int(door.served.port))


def _names(trusted: ssl.SSLContext, port: int) -> list[str]:
    ends_at = time.monotonic() + PATIENCE_S
    while True:
        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            trusted.wrap_socket(raw, server_hostname="127.0.0.1") as s,
        ):
            told: Any = (s.getpeercert() or {}).get("subjectAltName", ())
        found = [str(value) for _, value in told]
        if "second.example" in found or time.monotonic() > ends_at:
            return found
        time.sleep(0.05)


def test_certificates_that_are_none_keep_it_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("nothing")

    answer = streamshard("serve", "--port", "0", "--tls-cert", str(file), "--tls-key", str(file), *IN_MEMORY)

    assert answer.returncode == 1
    assert "--tls-cert: certificate and key can't be used" in answer.stderr


def test_an_application_lives_with_no_more_than_the_role_of_a_member(door: Secured) -> None:
    async def scenario(door: Secured) -> None:
        world = MemoryStreams()
        app = StreamApp(door.url, MemoryShardLog(world), token=door.token("app"))
        app.listener("orders", group="billing")(lambda message: message.ack())
        async with app:
            ends_at = time.monotonic() + PATIENCE_S
            while not (app.members and app.members[0].session.epoch > 0) and time.monotonic() < ends_at:
                await asyncio.sleep(0.05)
            assert app.members[0].session.epoch > 0
            shown = httpx.get(
                door.url + GROUP.replace("/v1", "/v1/monitoring") + "/members",
                headers=basic("ann"),
                trust_env=False,
            )
            assert [member["state"] for member in shown.json()["members"]] in (["STARTING"], ["ACTIVE"])

    asyncio.run(scenario(door))


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, Unauthenticated),
        ({"auth": ("app", "wrong")}, Unauthenticated),
        ({"token": "no.token.atall"}, Unauthenticated),
        ({"auth": ("eve", PASSWORD)}, ListenerRejected),
    ],
)
def test_an_application_that_may_not_is_told_so(given: dict[str, object], kind: type[Exception], door: Secured) -> None:
    async def scenario(url: str) -> None:
        app = StreamApp(url, MemoryShardLog(MemoryStreams()), **given)  # type: ignore[arg-type]
        app.listener("orders", group="billing")(lambda message: message.ack())
        async with app:
            await app.wait()

    with pytest.raises(kind):
        asyncio.run(scenario(door.url))


def test_name_and_password_may_stand_in_the_url_and_are_in_no_message(door: Secured) -> None:
    async def scenario(door: Secured) -> None:
        port = door.served.port
        async with HttpCoordinator(f"http://ann:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}") as api:
            assert (await api.routing(KEY)).key == KEY
        async with HttpCoordinator(f"http://app:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}") as api:
            with pytest.raises(Forbidden) as caught:
                await api.routing(KEY)
        assert PASSWORD not in str(caught.value) + repr(api)

    asyncio.run(scenario(door))
    with pytest.raises(ConfigurationError) as caught:
        HttpCoordinator("htp://ann:hunter2@127.0.0.1")
    assert "hunter2" not in str(caught.value)


def test_a_token_in_a_file_is_read_again_when_it_is_refused(door: Secured, tmp_path: Path) -> None:
    file = tmp_path / "token"

    async def scenario(door: Secured) -> None:
        file.write_text("an.old.token")
        async with HttpCoordinator(door.url, known=Credentials(token_file=str(file))) as api:
            with pytest.raises(Unauthenticated):
                await api.routing(KEY)
            file.write_text(door.token("ann") + "\n")
            assert (await api.routing(KEY)).key == KEY

    asyncio.run(scenario(door))


def test_the_command_line_gets_shows_uses_and_takes_back_a_token(tmp_path: Path) -> None:
    revoked = tmp_path / "revoked"
    with secured(tmp_path, "--revoked-tokens", str(revoked)) as door:
        here = {"STREAMSHARD_URL": door.url}
        made = streamshard("token", "create", "--user", "ann", environment={**here, "STREAMSHARD_PASSWORD": PASSWORD})
        token = {**here, "STREAMSHARD_TOKEN": made.stdout.strip()}
        shown = streamshard("token", "show", environment=token)
        used = streamshard("streams", "list", environment=token)
        gone = streamshard("token", "revoke", environment=token)
        after = streamshard("streams", "list", environment=token)
        stranger = streamshard("streams", "list", environment=here)
        wrong = streamshard("token", "create", "--user", "ann", environment={**here, "STREAMSHARD_PASSWORD": "wrong"})

    assert [each.returncode for each in (made, shown, used, gone, after, stranger, wrong)] == [0, 0, 0, 0, 5, 5, 5]
    assert "ACCOUNT  ann" in shown.stdout
    assert "LASTING  yes" in gone.stdout
    assert revoked.read_text().split()[0] in shown.stdout
    assert "Try: streamshard token create --user NAME" in after.stderr
    assert base64.b64encode(PASSWORD.encode()).decode() not in made.stdout


def test_a_hash_is_made_of_standard_input() -> None:
    made = subprocess.run(
        [*COMMAND, "auth", "hash"], input="x y z\n", capture_output=True, text=True, check=True, env=clean_environment()
    )

    assert made.stdout.startswith("$argon2id$")
    assert len(made.stdout.splitlines()) == 1
