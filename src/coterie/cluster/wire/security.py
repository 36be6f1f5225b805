"""What a program shows to take part: a shared secret, a certificate for TLS, or both."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET_BYTES_MIN = 16
HIDDEN = "…"


class Discreet(msgspec.Struct, frozen=True):
    """A struct of which some fields are secret: tracebacks, logs and debuggers show the others alone."""

    hidden: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        """Write the fields, with a dot in the place of each secret that there is."""
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        """Generate the fields as `repr` shows them, for libraries that ask the struct itself."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            yield name, HIDDEN if value and name in self.hidden else value


class Security(Discreet, frozen=True):
    """What shows that we belong to the cluster; files are read when they are needed."""

    hidden = frozenset({"secret", "operator_secret"})

    secret: str = ""
    ca: str = ""  # file with the certificates that ours are signed by
    certificate: str = ""
    key: str = ""
    operator_secret: str = ""  # of those who may change the cluster; empty: all who have the secret
    operator_trouble: str = ""  # why their secret could not be read, where there is one
    secret_files: tuple[str, ...] = ()  # that the secrets were read from

    @property
    def is_open(self) -> bool:
        """Whether any program that reaches a node may take part."""
        return not self.secret and not self.ca

    def secret_bytes(self) -> bytes:
        """Return the secret as it is used; empty without one."""
        return _checked(self.secret, "the secret")

    @property
    def has_operators(self) -> bool:
        """Whether operators have a secret of their own; else every program may do all that they may."""
        return bool(self.operator_secret or self.operator_trouble)

    def operator_bytes(self) -> bytes:
        """Return what operators have to know; that is the secret if there is no other.

        Raise `ConfigError` if it could not be read: only nodes and operators need the right to.
        """
        if self.operator_trouble:
            raise ConfigError(self.operator_trouble)
        return _checked(self.operator_secret, "the operator secret") or self.secret_bytes()

    def server_context(self) -> ssl.SSLContext | None:
        """Return what a node needs: it shows its certificate and asks for the caller's."""
        if not self._uses_tls():
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return self._load(context)

    def client_context(self) -> ssl.SSLContext | None:
        """Return what a caller needs: the node's certificate has to be for the host that is called."""
        if not self._uses_tls():
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # A certificate of a program has a name of its own choice there, which may be that of a node.
        context.hostname_checks_common_name = False
        return self._load(context)

    def exposed_files(self) -> list[str]:
        """List the files with secrets and keys that every user of this machine may read or write."""
        if os.name != "posix":
            return []
        return [path for path in (*self.secret_files, self.key) if path and _is_exposed(path)]

    def _uses_tls(self) -> bool:
        given = [bool(self.ca), bool(self.certificate), bool(self.key)]
        if any(given) and not all(given):
            raise ConfigError("TLS needs all three: ca, certificate and key")
        return all(given)

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(self.ca)
            context.load_cert_chain(self.certificate, self.key)
        except OSError as error:  # also what is wrong inside the files
            raise ConfigError(
                f"TLS with {self.ca}, {self.certificate}, {self.key}: {error}"
            ) from None
        return context


def _is_exposed(path: str) -> bool:
    try:
        return bool(Path(path).stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))
    except OSError:
        return False  # it is missing when it is read, which says so


def _checked(text: str, what: str) -> bytes:
    secret = text.encode()
    if secret and len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"{what} has {len(secret)} bytes and needs at least {SECRET_BYTES_MIN};"
            " make one by: coterie secret"
        )
    return secret


def read_secret(path: str) -> str:
    """Return the secret in a file."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the secret file {path}: {error}") from None
