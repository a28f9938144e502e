"""How TLS to Redis is set up: checked against the system's authorities unless a URL says otherwise."""

import ssl
from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs

Value = TypeVar("Value")

PARAMETERS = (
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_cert_reqs",
    "ssl_check_hostname",
    "ssl_min_version",
)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CHECKS = {"required": True, "none": False}


@attrs.frozen
class Tls:
    """What to trust and what to show; files are read again for every connection, so that they may be renewed."""

    ca_certs: str | None = None
    """Authorities to trust instead of the system's: a file, or a folder."""
    ca_path: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    """Of the key."""
    verify: bool = True
    check_hostname: bool = True
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2

    @classmethod
    def read(cls, given: dict[str, str]) -> "Tls":
        """Take its parameters out of a URL's; raises `ValueError` naming the one to mend."""
        mine = {name: given.pop(name) for name in PARAMETERS if name in given}
        tls = cls(
            mine.get("ssl_ca_certs"),
            mine.get("ssl_ca_path"),
            mine.get("ssl_certfile"),
            mine.get("ssl_keyfile"),
            mine.get("ssl_password"),
            _choice(mine, "ssl_cert_reqs", "required", _CHECKS),
            _choice(mine, "ssl_check_hostname", "true", _TRUTHS),
            _choice(mine, "ssl_min_version", "TLSv1.2", _VERSIONS),
        )
        for name in ("ssl_keyfile", "ssl_password"):
            if name in mine and tls.certfile is None:
                raise ValueError(f"{name}: needs ssl_certfile, the certificate that it belongs to")
        tls.context()
        return tls

    @property
    def unchecked(self) -> str:
        """What is not checked, in words; empty if everything is."""
        if not self.verify:
            return "whose certificate is (ssl_cert_reqs=none): anybody in between can read along"
        return "" if self.check_hostname else "whom the certificate is for (ssl_check_hostname=false)"

    def context(self) -> ssl.SSLContext:
        """For one connection; raises `ValueError` naming the parameter whose file can't be used."""
        context = _use("ssl_ca_certs", lambda: ssl.create_default_context(cafile=self.ca_certs, capath=self.ca_path))
        context.minimum_version = self.minimum
        context.check_hostname = self.verify and self.check_hostname
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        if (certificate := self.certfile) is not None:
            # Without a password given, none may be asked for at the terminal.
            password = self.password or ""
            _use("ssl_certfile", lambda: context.load_cert_chain(certificate, self.keyfile, lambda: password))
        return context


def _choice(given: Mapping[str, str], name: str, default: str, choices: Mapping[str, Value]) -> Value:
    text = given.get(name, default)
    if text not in choices:
        raise ValueError(f"{name}: must be {' or '.join(choices)}")
    return choices[text]


def _use(name: str, load: Callable[[], Value]) -> Value:
    try:
        return load()
    except ssl.SSLError as error:
        what = "the certificate and its key don't fit, or" if name == "ssl_certfile" else ""
        raise ValueError(f"{name}: {what} the file is no PEM ({error.reason})".replace(":  ", ": ")) from None
    except OSError as error:
        raise ValueError(f"{name}: the file can't be read: {error.strerror}") from None
