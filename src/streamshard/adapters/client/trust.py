"""Whose certificates a client believes."""

import ssl

from streamshard.errors import ConfigurationError


def trusting(ca_file: str) -> ssl.SSLContext:
    """Believe the authorities of that file and no others; raises `ConfigurationError`."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"ca_file: {ca_file} can't be read: {error}") from None
