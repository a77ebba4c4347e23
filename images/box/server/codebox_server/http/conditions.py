"""The conditions of a request (RFC 9110, section 13): of two that change a file, one can learn that it came second."""

from __future__ import annotations

import datetime
import os
import time
from email.utils import parsedate_to_datetime

from tornado.httputil import HTTPHeaders

from codebox_server.errors import BoxError
from codebox_server.files.entry import etag

# A date tells two contents apart only when the second is over.
_DATE_IS_STRONG_SECONDS = 2


def check_unchanged(headers: HTTPHeaders, status: os.stat_result | None) -> None:
    """Raise precondition_failed when If-Match or If-Unmodified-Since does not hold; None: there is no file."""
    expected, since = headers.get("If-Match"), _date(headers.get("If-Unmodified-Since"))
    if expected is not None:
        if status is None or not _lists(expected, etag(status)):
            raise BoxError("precondition_failed", "the file has changed or is not there", "/headers/If-Match")
    elif since is not None and (status is None or int(status.st_mtime) > since):
        raise BoxError("precondition_failed", "the file has changed or is not there", "/headers/If-Unmodified-Since")


def check_absent(headers: HTTPHeaders, status: os.stat_result | None) -> None:
    """Raise precondition_failed when a write is refused by If-None-Match."""
    unwanted = headers.get("If-None-Match")
    if unwanted is not None and status is not None and _lists(unwanted, etag(status), weak=True):
        raise BoxError("precondition_failed", "the file exists", "/headers/If-None-Match")


def is_known(headers: HTTPHeaders, status: os.stat_result) -> bool:
    """Whether a reader has this content already, by If-None-Match or else by If-Modified-Since."""
    known, since = headers.get("If-None-Match"), _date(headers.get("If-Modified-Since"))
    if known is not None:
        return _lists(known, etag(status), weak=True)
    return since is not None and int(status.st_mtime) <= since


def range_holds(headers: HTTPHeaders, status: os.stat_result) -> bool:
    """Whether a range may be served: If-Range names this content, or there is none."""
    condition = headers.get("If-Range")
    if condition is None:
        return True
    date = _date(condition)
    if date is None:
        return condition.strip() == etag(status)
    return int(status.st_mtime) == date and time.time() - date >= _DATE_IS_STRONG_SECONDS


def _lists(header: str, tag: str, weak: bool = False) -> bool:
    if header.strip() == "*":
        return True
    tags = [item.strip() for item in header.split(",")]
    return tag in ([item.removeprefix("W/") for item in tags] if weak else tags)


def _date(text: str | None) -> int | None:
    """Seconds since 1970; None for what is no date, which is to be ignored."""
    if text is None or text.strip().startswith(('"', "W/")):
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return int((date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp())
