"""Certificates of an authority that nobody knows, made by the openssl program."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a server shows, and the key to it."""

    file: Path
    key: Path

    @property
    def served(self) -> ssl.SSLContext:
        """For a server that shows it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.file, self.key)
        return context


class Authority:
    """Signs certificates; `file` is what those are to have who trust it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.file = folder / "authority.pem"
        extensions = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign")
        self._openssl("req", "-x509", *_NEW_KEY, *self._signs("-keyout", "-out"), "-subj", "/CN=authority", *extensions)

    def certificate(self, *names: str, days: int = 1) -> Certificate:
        """Sign for these names, as "DNS:localhost" or "IP:127.0.0.1"; below zero days it has ended already."""
        made = Certificate(self._folder / f"{len(list(self._folder.iterdir()))}.pem", self._folder / "server.key")
        asked = self._folder / "asked"
        names_asked = ("-subj", "/CN=server", "-addext", f"subjectAltName={','.join(names)}")
        known = () if not made.key.exists() else ("-key", str(made.key))
        self._openssl(
            "req", "-new", *(known or (*_NEW_KEY, "-keyout", str(made.key))), *names_asked, "-out", str(asked)
        )
        signed = ("-req", "-in", str(asked), "-days", str(days), "-copy_extensions", "copy", "-out", str(made.file))
        self._openssl("x509", *signed, *self._signs("-CAkey", "-CA"))
        return made

    def _signs(self, key: str, certificate: str) -> tuple[str, ...]:
        return (key, str(self._folder / "authority.key"), certificate, str(self.file))

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True)
