"""The randomness of this process."""

import secrets

from streamshard.core.ids import Nonce

_FRACTION_BITS = 53


class SystemEntropy:
    """The `Entropy` port over the operating system's generator."""

    def nonce(self) -> Nonce:
        """128 random bits, in hex."""
        return Nonce(secrets.token_hex(16))

    def fraction(self) -> float:
        """Uniform in [0, 1)."""
        return secrets.randbits(_FRACTION_BITS) / (1 << _FRACTION_BITS)
