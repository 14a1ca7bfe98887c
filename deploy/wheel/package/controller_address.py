"""Where the controller is and what to show it, found as the command line finds it (cli/session/context.h, docs/CLI.md)."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import ssl
import stat
from dataclasses import dataclass, field
from typing import Any, Optional

from muster.errors import MusterError

DEFAULT_ADDRESS = "127.0.0.1:7070"
LOCAL_CONTEXT = "local"  # what `muster local up` left is called so
_MAX_FILE_BYTES = 1 << 20
_MAX_TOKEN_BYTES = 256
_CONTEXT_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class ControllerAddress:
    address: str  # HOST:PORT
    token: str = field(repr=False)  # empty: none
    ca: Optional[bytes]  # certificates in PEM; None: no TLS


@dataclass(frozen=True)
class _SavedContext:
    address: str = ""  # empty: nothing was saved
    token_file: str = ""
    ca_file: str = ""  # empty: no TLS
    insecure: bool = False


def _unreadable(what: str, path: str, error: OSError) -> MusterError:
    missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
    return MusterError("NOT_FOUND" if missing else "PERMISSION_DENIED", f"{what} {path}: {error.strerror}")


def _read(path: str, what: str, most: int = _MAX_FILE_BYTES, *, private: bool = False) -> bytes:
    """The first `most` bytes of a plain file, one more of a larger one. With `private` nobody else may use it."""
    try:
        # A pipe would keep the call waiting for its other end.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise MusterError("INVALID_ARGUMENT", f"{what} {path}: not a plain file")
            if private and mode & 0o077:
                raise MusterError("PERMISSION_DENIED", f"{what} {path}: others may use it; run: chmod 600 {path}")
            return file.read(most + 1)
    except OSError as error:
        raise _unreadable(what, path, error) from None
    except ValueError:  # a name with a NUL in it
        raise MusterError("INVALID_ARGUMENT", f"{what} {path!r}: no name of a file") from None


def _check_token(what: str, token: str) -> None:
    if len(token) > _MAX_TOKEN_BYTES or not all(33 <= ord(letter) < 127 for letter in token):
        raise MusterError("INVALID_ARGUMENT", f"{what}: a token has at most 256 characters, all of them printable ASCII")


def _read_token(path: str) -> str:
    token = _read(path, "token file", _MAX_TOKEN_BYTES + 2, private=True).strip().decode("ascii", "replace")
    if not token:
        raise MusterError("INVALID_ARGUMENT", f"token file {path}: the token is empty")
    _check_token(f"token file {path}", token)
    return token


def _read_certificates(path: str) -> bytes:
    data = _read(path, "CA's certificates")
    if len(data) > _MAX_FILE_BYTES:
        raise MusterError("INVALID_ARGUMENT", f"CA's certificates {path}: larger than 1 MiB")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise MusterError("INVALID_ARGUMENT", f"CA's certificates {path}: is no file of PEM certificates "
                                              "(-----BEGIN CERTIFICATE-----)") from None
    return data


def _same_address(one: str, other: str) -> bool:
    def normal(address: str) -> str:
        return "127.0.0.1:" + address[len("localhost:"):] if address.startswith("localhost:") else address
    return normal(one) == normal(other)


def _is_loopback(host: str) -> bool:
    host = host[1:] if host.startswith("[") else host
    host = host[:-1] if host.endswith("]") else host
    if host in ("localhost", "::1"):
        return True
    try:
        return socket.inet_pton(socket.AF_INET, host)[0] == 127
    except (OSError, ValueError):
        return False


def _config_file(name: str) -> Optional[str]:
    config = os.environ.get("XDG_CONFIG_HOME") or ""
    home = os.environ.get("HOME") or ""
    if not config and not home:
        return None
    return os.path.join(config or os.path.join(home, ".config"), "muster", name)


def _load(path: str, what: str) -> Any:
    """What the JSON file holds; None: it holds none. NOT_FOUND: it is not there."""
    data = _read(path, what)
    try:
        return json.loads(data) if len(data) <= _MAX_FILE_BYTES else None
    except (ValueError, RecursionError):
        return None


def _context(saved: "dict[str, Any]") -> _SavedContext:
    def text(key: str) -> str:
        value = saved.get(key)
        return value if isinstance(value, str) else ""
    return _SavedContext(text("address"), text("token_file"), text("ca_file"), saved.get("insecure") is True)


def _login(name: str) -> Optional[_SavedContext]:
    """A context that `muster login` saved; without a name the one in use. None: there is none."""
    path = _config_file("config.json")
    if path is None:
        return None
    try:
        saved = _load(path, "contexts")
    except MusterError as error:
        if error.code == "NOT_FOUND":
            return None
        raise
    contexts = saved.get("contexts") if isinstance(saved, dict) else None
    if not isinstance(contexts, dict):
        raise MusterError("INVALID_ARGUMENT", f"{path}: no contexts that muster wrote; remove the file and log in again")
    name = name or saved.get("current") or ""
    if not isinstance(name, str) or name == LOCAL_CONTEXT or not _CONTEXT_NAME.fullmatch(name):
        return None
    one = contexts.get(name)
    return _context(one) if isinstance(one, dict) else None


def _local() -> Optional[_SavedContext]:
    """What `muster local up` saved. None: nothing."""
    path = _config_file("context.json")
    if path is None:
        return None
    try:
        saved = _load(path, "context")
    except MusterError as error:
        if error.code == "NOT_FOUND":
            return None
        raise
    if not isinstance(saved, dict) or not isinstance(saved.get("address"), str):
        raise MusterError("INVALID_ARGUMENT", f"{path}: not a context that muster wrote; remove the file, or set MUSTER_ADDR")
    return _context({key: value for key, value in saved.items() if key != "insecure"})


def _chosen_context(name: str) -> _SavedContext:
    name = name or os.environ.get("MUSTER_CONTEXT") or ""
    login = _login(name)
    if login is not None:
        return login
    if name and name != LOCAL_CONTEXT:
        raise MusterError("NOT_FOUND", f"context {name}: there is none; `muster config get-contexts` lists them, "
                                       "`muster login` makes one")
    local = _local()
    if local is None and name:
        raise MusterError("NOT_FOUND", "context local: no local Muster runs; `muster local up` starts one")
    return local or _SavedContext()


def find_controller(address: Optional[str] = None, token_file: Optional[str] = None, ca_file: Optional[str] = None, *,
                    context: Optional[str] = None, insecure: bool = False) -> ControllerAddress:
    """The arguments first, then MUSTER_ADDR, MUSTER_TOKEN or MUSTER_TOKEN_FILE, MUSTER_CA_FILE and MUSTER_INSECURE, then a
    saved context, of which the token and the certificates count only if the address is its own. An argument `context` goes
    before the environment.

    The context: that of the argument, else MUSTER_CONTEXT, else the one in use since `muster login` or `muster config
    use-context`, else what `muster local up` saved. A token that would leave the machine in plain text raises
    INVALID_ARGUMENT, unless `insecure`, MUSTER_INSECURE=1 or the context allows it.
    """
    def environment(name: str) -> str:
        return "" if context else os.environ.get(name) or ""
    address = address or environment("MUSTER_ADDR")
    token = "" if token_file else environment("MUSTER_TOKEN")
    if not token:
        token_file = token_file or environment("MUSTER_TOKEN_FILE")
    ca_file = ca_file or environment("MUSTER_CA_FILE")
    insecure = insecure or environment("MUSTER_INSECURE") == "1"
    complete = not context and address and (token or token_file) and ca_file
    saved = _SavedContext() if complete else _chosen_context(context or "")
    address = address or saved.address or DEFAULT_ADDRESS
    if address.startswith("dns:///"):
        address = address[len("dns:///"):]
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise MusterError("INVALID_ARGUMENT",
                          f"'{address}' is no address: write it as HOST:PORT, for example {DEFAULT_ADDRESS}")
    if _same_address(saved.address, address):
        if not token:
            token_file = token_file or saved.token_file
        ca_file = ca_file or saved.ca_file
        insecure = insecure or saved.insecure
    ca = _read_certificates(ca_file) if ca_file else None
    if token_file:
        token = _read_token(token_file)
    else:
        _check_token("MUSTER_TOKEN", token)
    if token and ca is None and not insecure and not _is_loopback(host):
        raise MusterError("INVALID_ARGUMENT",
                          f"the token would go to {address} in plain text, for anyone on the way to read; give the CA's "
                          "certificates with ca_file= (MUSTER_CA_FILE), so that the connection is encrypted; or "
                          "insecure=True (MUSTER_INSECURE=1), where the network is safe")
    return ControllerAddress(address, token, ca)
