"""A certificate of a host `crow.test` that does not exist, made for tests: it opens nothing."""

from __future__ import annotations

from pathlib import Path

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUeOLKIdBtYbziTSEmvzdp9xEf2BkwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJY3Jvdy50ZXN0MCAXDTI2MTEzMDAwMDIwOFoYDzIxMjYxMTA2
MDAwMjA4WjAUMRIwEAYDVQQDDAljcm93LnRlc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASTqgo2AukK7zctVowk74eqjDWM8XKpABdoQ/aJYJG7p3L7b6gnJ5FJ
36ABa684z9IlGdaDhi9Zz22IdoU1Iyz8o1MwUTAdBgNVHQ4EFgQUH+9Yij6hRyVg
aXax2tTHhM6qToYwHwYDVR0jBBgwFoAUH+9Yij6hRyVgaXax2tTHhM6qToYwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBqoXNNcIe0c1ZbOxDwkyhS
CDXCLPJkPwElg4bcd5XffwIgM4h6JHFCrjxou1vP0aA24K762mHwtn2bJQ5T2rup
uDc=
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJ8rRn+w6LWO9vjao
uFjGjeVvCagkN88MS0ncXmxQAUmhRANCAASTqgo2AukK7zctVowk74eqjDWM8XKp
ABdoQ/aJYJG7p3L7b6gnJ5FJ36ABa684z9IlGdaDhi9Zz22IdoU1Iyz8
-----END PRIVATE KEY-----
"""
PIN = "sha256/GvWH03+cIeFhEB4jkrerBeGI7A4VgaEKOgzlGvnQMUA="


def written(root: Path) -> tuple[str, str]:
    """The files of certificate and key, as `node.tls` names them."""
    files = (root / "node.pem", root / "node.key")
    for file, text in zip(files, (CERTIFICATE, KEY), strict=True):
        file.write_text(text)
        file.chmod(0o600)
    return str(files[0]), str(files[1])
