"""An issuer of JSON Web Tokens whose key protects nothing, and the keys that it publishes."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

#: The issuer's RSA key of 2048 bits: two primes, made for these tests.
_P = int(
    "d0b32d56127abf08e9d01b2b13345798a09daf57a5978fc3de96403aff3fc557"
    "8a34e2cc36505d2b103779e053e6f535d75fbceaca5ecf236ea9b4daedb09e82"
    "53b74a6b56cba51bf5222ef1ac77fe3e572d8a45c079d7ee5b2dcf26b6cc68d5"
    "09c2535d162a956eb59b231ed6df9a7b077517137fc713ce311695f1f3952be1",
    16,
)
_Q = int(
    "b6bbf323cb7aebcd210f1b3c562b3af4a918cb4b845695881003d8cb918ca203"
    "e16ddb778757443d86833b79b08fce6723b042a1d02414d8a7c4d32e8e2370dd"
    "05eae40a10839c33efe5a361109126a9813375d303df44e68eb6d7e734e706d4"
    "04a28c2a2a0cc52cffda16ee799cea6046bec45c799a58fab39fd5076cfd79cb",
    16,
)
_MODULUS = _P * _Q
_EXPONENT = 65537
_SECRET = pow(_EXPONENT, -1, (_P - 1) * (_Q - 1))
_SIZE = 256
#: What stands before a SHA-256 digest in a signature (RFC 8017, 9.2).
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")

ISSUER = "https://identity.example"
AUDIENCE = "llm"


def key_set() -> dict[str, Any]:
    """The public key as the issuer's page has it."""
    key = {
        "kty": "RSA",
        "kid": "test",
        "alg": "RS256",
        "use": "sig",
        "n": _base64(_MODULUS.to_bytes(_SIZE)),
        "e": _base64(_EXPONENT.to_bytes(3)),
    }
    return {"keys": [key]}


def signed(**claims: Any) -> str:
    """A token of this issuer, good for an hour unless ``claims`` say otherwise."""
    text = _signed_part(claims)
    digest = _SHA256 + hashlib.sha256(text.encode()).digest()
    padded = b"\0\1" + b"\xff" * (_SIZE - len(digest) - 3) + b"\0" + digest
    signature = pow(int.from_bytes(padded), _SECRET, _MODULUS)
    return f"{text}.{_base64(signature.to_bytes(_SIZE))}"


def forged(**claims: Any) -> str:
    """The same with a signature by nobody."""
    return f"{_signed_part(claims)}.{_base64(bytes(range(_SIZE)))}"


def _signed_part(claims: dict[str, Any]) -> str:
    header = {"alg": "RS256", "typ": "JWT", "kid": "test"}
    payload = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3600, **claims}
    return ".".join(_base64(json.dumps(part).encode()) for part in (header, payload))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
