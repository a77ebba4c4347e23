"""The conditions of a request (RFC 9110, section 13), which let concurrent writers of a file detect each other."""

from __future__ import annotations

import datetime
import os
import time
from email.utils import parsedate_to_datetime

from tornado.httputil import HTTPHeaders

from codebox_server.errors import BoxError
from codebox_server.files.entry import etag

# A date distinguishes two contents only after its second is over.
_DATE_IS_STRONG_SECONDS = 2


def check_unchanged(headers: HTTPHeaders, status: os.stat_result | None) -> None:
    """Raise precondition_failed when If-Match or If-Unmodified-Since does not hold; None: the file does not exist."""
    expected, since = headers.get("If-Match"), _date(headers.get("If-Unmodified-Since"))
    if expected is not None:
        if status is None or not _lists(expected, etag(status)):
            raise BoxError("precondition_failed", "the file has changed or does not exist", "/headers/If-Match")
    elif since is not None and (status is None or int(status.st_mtime) > since):
        raise BoxError("precondition_failed", "the file has changed or does not exist", "/headers/If-Unmodified-Since")


def check_absent(headers: HTTPHeaders, status: os.stat_result | None) -> None:
    """Raise precondition_failed when If-None-Match refuses a write."""
    unwanted = headers.get("If-None-Match")
    if unwanted is not None and status is not None and _lists(unwanted, etag(status), weak=True):
        raise BoxError("precondition_failed", "the file exists", "/headers/If-None-Match")


def is_known(headers: HTTPHeaders, status: os.stat_result) -> bool:
    """Whether a reader has this content already, by If-None-Match or otherwise by If-Modified-Since."""
    known, since = headers.get("If-None-Match"), _date(headers.get("If-Modified-Since"))
    if known is not None:
        return _lists(known, etag(status), weak=True)
    return since is not None and int(status.st_mtime) <= since


def range_holds(headers: HTTPHeaders, status: os.stat_result) -> bool:
    """Whether a range may be sent: If-Range matches this content, or is absent."""
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
    """Return seconds since 1970; None for an invalid date, which has to be ignored."""
    if text is None or text.strip().startswith(('"', "W/")):
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return int((date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp())
