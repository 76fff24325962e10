"""What errors of Google's own client mean; see ``object_errors``."""

from __future__ import annotations

import google.api_core.exceptions
import google.auth.exceptions
import urllib3.exceptions
from google.cloud.storage.exceptions import DataCorruption

from shardfeed.errors import ShardfeedError, UsageError, clip
from shardfeed.storage import object_errors
from shardfeed.storage.base import UnreadableError
from shardfeed.storage.object_errors import ObjectAction

# Everything that the client raises for what happens outside this process. requests' errors are
# OSErrors.
FAILURES = (
    google.api_core.exceptions.GoogleAPICallError,
    google.auth.exceptions.GoogleAuthError,
    urllib3.exceptions.HTTPError,
    DataCorruption,
    OSError,
)


def status_of(error: Exception) -> int | None:
    """The HTTP status behind an error of either client; None if there was no answer."""
    if isinstance(error, google.api_core.exceptions.GoogleAPICallError):
        return None if error.code is None else int(error.code)
    return object_errors.status_of(error)


def is_transient(error: Exception) -> bool:
    """True if the same request may succeed later: no whole answer, overload, a server's fault."""
    if isinstance(error, google.auth.exceptions.GoogleAuthError):
        return isinstance(error, google.auth.exceptions.TransportError) or bool(getattr(error, "retryable", False))
    status = status_of(error)
    if status is not None:
        return object_errors.is_passing(status, str(error))
    return isinstance(error, (*FAILURES, *object_errors.failures()))


def users_error(error: Exception, action: ObjectAction, bucket: str, name: str) -> ShardfeedError:
    """The error to raise for a failure that was final or lasted through all attempts."""
    if isinstance(error, google.auth.exceptions.GoogleAuthError) and not is_transient(error):
        kind = UnreadableError if action in ("list", "get") else UsageError
        said = clip(str(error).partition("\n")[0], 300).rstrip(".")
        return kind(
            f"Google did not accept the credentials for gs://{bucket}/{clip(name)}: {said}. "
            "Log in: gcloud auth application-default login."
        )
    text = str(error) or type(error).__name__
    return object_errors.explained(text, status_of(error), is_transient(error), action, "gs", bucket, name)
