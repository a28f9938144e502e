"""Redis URLs: what they mean, and what is wrong with those that mean nothing."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.adapters.redis_url import PARAMETERS, SCHEMES, Kind, parse, read
from streamshard.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "seeds", "options"),
    [
        ("redis://host", (("host", 6379),), {}),
        ("redis://:pw@host:1/3", (("host", 1),), {"password": "pw", "db": 3}),
        ("redis://me@host?db=2", (("host", 6379),), {"username": "me", "db": 2}),
        ("redis://u:p%40%2F%3A%25+%20@host", (("host", 6379),), {"username": "u", "password": "p@/:%+ "}),
        ("redis://host?username=u&password=a%26b+c", (("host", 6379),), {"username": "u", "password": "a&b+c"}),
        ("redis://[::1]:7000", (("::1", 7000),), {}),
        ("redis+cluster://one:1,[::1],three", (("one", 1), ("::1", 6379), ("three", 6379)), {}),
        ("unix:///run/redis.sock?db=1", (("/run/redis.sock", 0),), {"path": "/run/redis.sock", "db": 1}),
        ("unix://u:p@/run/a%20b", (("/run/a b", 0),), {"path": "/run/a b", "username": "u", "password": "p"}),
    ],
)
def test_a_url_says_where_and_as_whom(url: str, seeds: tuple[tuple[str, int], ...], options: dict[str, object]) -> None:
    place = parse(url)

    assert (place.seeds, place.options) == (seeds, options)


def test_sentinels_have_a_login_of_their_own() -> None:
    place = parse("redis+sentinel://u:p@a,b:1/the%20main/2?sentinel_username=s&sentinel_password=q")

    assert (place.kind, place.service, place.seeds) == (Kind.SENTINEL, "the main", (("a", 26379), ("b", 1)))
    assert place.options == {"username": "u", "password": "p", "db": 2}
    assert place.sentinel_at(("a", 26379)) == {"username": "s", "password": "q", "host": "a", "port": 26379}
    assert place.name == "the main of the sentinels a:26379,b:1"


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_login_comes_through_percent_encoded(user: str, password: str) -> None:
    encoded = f"{quote(user, safe='')}:{quote(password, safe='')}"

    before, behind = parse(f"redis://{encoded}@host"), parse(f"redis://host?password={quote(password, safe='')}")

    assert (before.options["username"], before.options["password"]) == (user, password)
    assert behind.options["password"] == password


@given(st.sampled_from(sorted(SCHEMES)), st.text(max_size=60))
def test_whatever_stands_behind_the_scheme_is_read_or_refused(scheme: str, rest: str) -> None:
    try:
        named = read(f"{scheme}://{rest}").name
    except ValueError as error:
        named = str(error)

    assert named


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://host", "begins with none of redis://"),
        ("redis:host", "begins with none of"),
        ("redis://", "a host is missing"),
        ("redis://:1", "a host is missing"),
        ("redis://host:0", "port: must be from 1 to 65535"),
        ("redis://host:65536", "port: must be from 1 to 65535"),
        ("redis://host:x", "port: must be a whole number"),
        ("redis://::1", "an IPv6 address stands in brackets"),
        ("redis://host/x", "db: must be a whole number"),
        ("redis://host/1/2", "db: must be a whole number"),
        ("redis://one,two", "only a cluster or its sentinels"),
        ("redis+cluster://one,", "a host is missing"),
        ("redis+cluster://one/1", "no databases but 0"),
        ("redis+sentinel://one", "the master's name is missing"),
        ("redis+sentinel://one/main/x", "db: must be a whole number"),
        ("unix://run/redis.sock", "has to be absolute"),
        ("redis://u:a/b@host", "write %40, %2F, %3F, %23"),
        ("redis://u:a@b@host", "write %40, %2F, %3F, %23"),
        ("redis://u:a%zz@host", "password: a % has to be followed"),
        ("redis://u:%ff@host", "password: is not UTF-8"),
        ("redis://u:p@host?password=q", "password: is given twice"),
        ("redis://host?db=1&db=2", "db: is given twice"),
        ("redis://host?passwd=x", "passwd: is no parameter of a Redis URL: did you mean password?"),
        ("rediss://host?ssl_cacerts=x", "ssl_cacerts: is no parameter of a Redis URL: did you mean ssl_ca_certs?"),
        ("redis://host?retry_on_timeout=1", "retry_on_timeout: is decided by streamshard: leave it out"),
        ("redis://host?whatever=1", f"parameter 1 is none of {', '.join(PARAMETERS)}"),
        ("redis://host?ssl_ca_certs=x", "ssl_ca_certs: means something with rediss://"),
        ("redis://host?sentinel_password=x", "sentinel_password: means something with redis+sentinel://"),
        ("redis://:p@host?password_file=/dev/null", "password_file: is given beside a password"),
        ("redis://host?password_file=/no/such", "password_file: can't be read: No such file"),
        ("rediss://host?ssl_ca_certs=/no/such", "ssl_ca_certs: the file can't be read: No such file"),
        ("rediss://host?ssl_ca_certs=/dev/null", "ssl_ca_certs: the file is no PEM"),
        ("rediss://host?ssl_certfile=/dev/null", "ssl_certfile: "),
        ("rediss://host?ssl_keyfile=/dev/null", "ssl_keyfile: needs ssl_certfile"),
        ("rediss://host?ssl_cert_reqs=optional", "ssl_cert_reqs: must be required or none"),
        ("rediss://host?ssl_check_hostname=maybe", "ssl_check_hostname: must be true"),
        ("rediss://host?ssl_min_version=TLSv1.1", "ssl_min_version: must be TLSv1.2 or TLSv1.3"),
    ],
)
def test_what_is_wrong_with_a_url_is_named_with_the_remedy(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(url, "redis: the URL")

    assert refused.value.message.startswith("redis: the URL can't be used: ")
    assert why in refused.value.message


def test_a_password_in_a_file_is_read_by_whoever_connects(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")

    place = parse(f"redis://me@host?password_file={file}")

    assert place.options == {"username": "me", "password_file": str(file)}
