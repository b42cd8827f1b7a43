"""Pins of certificates: `sha256/` and the base64 of the SHA-256 of the public key (NODE-2).

Decides what of a certificate is compared, and that a connection whose key is another one never comes about:
nothing, and no key of ours, was sent on it by then. A pin stands for the authorities: a certificate that a
fleet made itself needs none.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from collections.abc import Iterator
from typing import Final

PREFIX: Final = "sha256/"
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0


def pin_of(certificate: bytes) -> str:
    """The pin of a certificate in DER. ValueError when it is none."""
    digest = hashlib.sha256(_public_key(certificate)).digest()
    return PREFIX + base64.b64encode(digest).decode()


def pin_of_file(path: str) -> str:
    """The pin of the first certificate of a PEM file. Raises OSError, ValueError."""
    with open(path, encoding="ascii") as file:  # noqa: PTH123 - a path of the config, read once
        text = file.read()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    if begin not in text or end not in text:
        raise ValueError(f"{path} holds no certificate")
    first = text[text.index(begin) : text.index(end) + len(end)] + "\n"
    return pin_of(ssl.PEM_cert_to_DER_cert(first))


def context_for(pin: str | None) -> ssl.SSLContext:
    """How to speak TLS to who has that pin; without one as everybody: by the machine's authorities."""
    context = ssl.create_default_context()
    if pin is not None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.sslobject_class = _pinned(pin)
    return context


def _pinned(pin: str) -> type[ssl.SSLObject]:
    class Pinned(ssl.SSLObject):
        """A connection that ends in its handshake when the other side has another key."""

        def do_handshake(self) -> None:
            super().do_handshake()
            certificate = self.getpeercert(binary_form=True)
            found = "" if certificate is None else pin_of(certificate)
            if not hmac.compare_digest(found, pin):
                why = f"its key is not the pinned one: {found or 'none'}"
                error = ssl.SSLCertVerificationError(1, why)
                error.verify_message = why
                raise error

    return Pinned


def _public_key(certificate: bytes) -> bytes:
    """SubjectPublicKeyInfo: the seventh part of what is signed, the sixth where no version stands first."""
    signed = next(_parts(_inside(certificate)))
    parts = list(_parts(_inside(signed)))
    if parts and parts[0][0] == _VERSION:
        parts = parts[1:]
    if len(parts) < 6 or parts[5][0] != _SEQUENCE:
        raise ValueError("this is no certificate: it has no public key")
    return parts[5]


def _inside(element: bytes) -> bytes:
    head, size = _size(element, 0)
    return element[head : head + size]


def _parts(data: bytes) -> Iterator[bytes]:
    """Each element of a DER sequence, whole."""
    place = 0
    while place < len(data):
        head, size = _size(data, place)
        yield data[place : head + size]
        place = head + size


def _size(data: bytes, place: int) -> tuple[int, int]:
    """Where an element's content begins, and how long it is."""
    try:
        first = data[place + 1]
        if first < 0x80:
            head, size = place + 2, first
        else:
            head = place + 2 + (first & 0x7F)
            size = int.from_bytes(data[place + 2 : head], "big")
    except IndexError:
        raise ValueError("this is no certificate: it ends early") from None
    if head + size > len(data):
        raise ValueError("this is no certificate: it ends early")
    return head, size
