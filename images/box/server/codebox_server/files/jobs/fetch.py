"""Download of a URL from inside the box: it reaches what the box can reach and nothing else."""

from __future__ import annotations

import http.client
import os
import socket
import urllib.error
import urllib.request
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import urlsplit

from codebox_server.bounds import CHUNK_BYTES, FETCH_REDIRECTS, TRANSFER_STALL_SECONDS
from codebox_server.errors import BoxError


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects, to http and https only; the caller's headers are sent to the original server only."""

    max_redirections = FETCH_REDIRECTS
    max_repeats = 2

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise _refusal("it redirects to an address that is neither http nor https")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and _origin(newurl) != _origin(req.full_url):
            request.headers = {name: value for name, value in request.headers.items() if name in ("Accept-encoding",)}
        return request


def fetch(fields: dict[str, Any]) -> dict[str, Any]:
    """Download `url` with `headers` into the new file `temporary`, at most `maxBytes`. Return `{sizeBytes}`."""
    most = fields.get("maxBytes")
    if urlsplit(fields["url"]).scheme not in ("http", "https"):
        raise _refusal("it is neither http nor https")
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    # No Content-Encoding is decoded, so none is accepted.
    headers = {"User-Agent": "CodeBox", **fields.get("headers", {}), "Accept-Encoding": "identity"}
    try:
        request = urllib.request.Request(fields["url"], headers=headers)
        with _open(opener, request) as response:
            return {"sizeBytes": _save(response, fields["temporary"], most)}
    except (http.client.HTTPException, ValueError) as error:
        raise _refusal(f"its server does not speak HTTP: {type(error).__name__}") from error


def _open(opener: urllib.request.OpenerDirector, request: urllib.request.Request) -> Any:
    try:
        return opener.open(request, timeout=TRANSFER_STALL_SECONDS)
    except urllib.error.HTTPError as error:
        raise _refusal(f"its server responded with {error.code} {error.reason}"[:300]) from error
    except urllib.error.URLError as error:
        raise _refusal(_reason(error.reason)) from error
    except OSError as error:
        # After the request is sent, urllib no longer wraps errors.
        raise _refusal(_reason(error)) from error


def _save(response: Any, path: str, most: int | None) -> int:
    announced = response.headers.get("Content-Length", "")
    if most is not None and announced.isdigit() and int(announced) > most:
        raise _too_large(most)
    size = 0
    with open(path, "xb", buffering=0) as file:
        while chunk := _receive(response):
            size += len(chunk)
            if most is not None and size > most:
                raise _too_large(most)
            view = memoryview(chunk)
            while view:
                view = view[file.write(view) :]
    if announced.isdigit() and size != int(announced):
        raise _refusal("its server closed the connection early")
    return size


def _receive(response: Any) -> bytes:
    try:
        return response.read(CHUNK_BYTES // 4)
    except (OSError, http.client.HTTPException) as error:
        raise _refusal("its server closed the connection early") from error


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _reason(reason: Any) -> str:
    if isinstance(reason, socket.gaierror):
        return "its host name cannot be resolved from inside the box"
    if isinstance(reason, TimeoutError):
        return "its server does not respond"
    if isinstance(reason, OSError) and reason.errno is not None:
        return f"its server cannot be reached from inside the box: {os.strerror(reason.errno)}"
    return f"it cannot be downloaded: {reason}"[:300]


def _refusal(why: str) -> BoxError:
    return BoxError("invalid_request", f"the URL cannot be fetched: {why}", "/url")


def _too_large(most: int) -> BoxError:
    return BoxError("too_large", f"the file at the URL has more than {most} bytes", "/maxBytes")
