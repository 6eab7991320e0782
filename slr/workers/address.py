"""The address of a Dask scheduler, checked before anything is made for the work that goes there."""

import socket
from urllib.parse import urlsplit

from slr.checks import quoted

SCHEMES = ("tcp", "tls", "ws", "wss", "ucx", "ucxx")  # of Dask, and none: tcp
EXAMPLE = "tcp://host:8786"


def check_address(address: str) -> None:
    """Raise ValueError unless the address has a host and a port.

    >>> check_address("tcp://127.0.0.1:8786")
    """
    _host_and_port(address)


def check_reachable(address: str, *, seconds: float = 5) -> None:
    """Raise ConnectionError unless something answers at the address."""
    host, port = _host_and_port(address)
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: not the name of a host
        raise no_scheduler(address) from error


def no_scheduler(address: str) -> ConnectionError:
    """The error of an address at which nothing answers."""
    return ConnectionError(
        f"no Dask scheduler answers at {quoted(address)} (one is started with `dask scheduler`)"
    )


def _host_and_port(address: str) -> tuple[str, int]:
    scheme, _, place = address.rpartition("://") if isinstance(address, str) else ("?", "", "")
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname, parts.port
        is_place = place.isprintable() and not place[place.rfind(":") :].strip(":0123456789")
    except ValueError:  # a port above 65535, or brackets that do not match
        host, port, is_place = None, None, False
    if scheme not in ("", *SCHEMES) or not host or not port or not is_place:
        raise ValueError(
            f"the address of a Dask scheduler is like {EXAMPLE}, with a port from 1 to 65535, "
            f"and not {quoted(address)}"
        )
    return host, port
