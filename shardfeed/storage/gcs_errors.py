"""What errors of the two GCS clients mean: try again, change something, or give up for now."""

from __future__ import annotations

import re
from typing import Literal

import google.api_core.exceptions
import google.auth.exceptions
import obstore.exceptions
import urllib3.exceptions
from google.cloud.storage.exceptions import DataCorruption

from shardfeed.errors import ShardfeedError, UsageError, clip
from shardfeed.storage.base import StorageError, UnreadableError
from shardfeed.storage.retry import attempts

ObjectAction = Literal["list", "get", "create", "delete"]

# Everything that the clients raise for what happens outside this process. requests' errors are
# OSErrors.
FAILURES = (
    google.api_core.exceptions.GoogleAPICallError,
    google.auth.exceptions.GoogleAuthError,
    obstore.exceptions.BaseError,
    urllib3.exceptions.HTTPError,
    DataCorruption,
    OSError,
)

_OBSTORE_STATUS = re.compile(r"status code: (\d{3})")
# Answers of status 400 that are gone at the next attempt: Google's front end gives the first
# without a reason, the second is for bytes that changed on the way.
_PASSING = re.compile(r"malformed or illegal request|doesn.t match calculated")
_IN_BODY = re.compile(r'"message": *"((?:[^"\\]|\\.)*)"|<Message>([^<]*)')
_REQUEST = re.compile(r"^(\d{3} )?[A-Z]+ https?://\S+: ")
_ROLES = {
    "list": "roles/storage.objectViewer",
    "get": "roles/storage.objectViewer",
    "create": "roles/storage.objectUser",
    "delete": "roles/storage.objectUser",
}


def status_of(error: Exception) -> int | None:
    """The HTTP status behind an error of either client; None if there was no answer."""
    if isinstance(error, google.api_core.exceptions.GoogleAPICallError):
        return None if error.code is None else int(error.code)
    if isinstance(error, FileNotFoundError):  # obstore's "not found"
        return 404
    if isinstance(error, obstore.exceptions.UnauthenticatedError):
        return 401
    if isinstance(error, obstore.exceptions.PermissionDeniedError):
        return 403
    if isinstance(error, obstore.exceptions.BaseError):
        found = _OBSTORE_STATUS.search(str(error))
        return int(found[1]) if found else None
    return None


def lacks_header(error: Exception) -> bool:
    """True if obstore refuses an answer without length or tag, as of an object of gzip."""
    return isinstance(error, obstore.exceptions.BaseError) and "Header missing from response" in str(error)


def is_transient(error: Exception) -> bool:
    """True if the same request may succeed later: no whole answer, overload, a server's fault."""
    if isinstance(error, google.auth.exceptions.GoogleAuthError):
        return isinstance(error, google.auth.exceptions.TransportError) or bool(getattr(error, "retryable", False))
    status = status_of(error)
    if status is not None:
        return status in (408, 429) or status >= 500 or (status == 400 and _PASSING.search(str(error)) is not None)
    return isinstance(error, FAILURES)


def users_error(error: Exception, action: ObjectAction, bucket: str, name: str) -> ShardfeedError:
    """The error to raise for a failure that was final or lasted through all attempts."""
    url, said = f"gs://{bucket}/{clip(name)}", clip(str(error).partition("\n")[0], 300)
    status = status_of(error)
    kind = UnreadableError if action in ("list", "get") else UsageError
    if isinstance(error, google.auth.exceptions.GoogleAuthError) and not is_transient(error):
        return kind(
            f"Google did not accept the credentials for {url}: {said.rstrip('.')}. Log in: gcloud auth application-default login."
        )
    if status in (401, 403):
        return kind(
            f"permission storage.objects.{action} is missing on bucket {bucket} for {url} ({status}: {said}). "
            f"Grant it: gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=ACCOUNT --role={_ROLES[action]}"
        )
    if status == 404:
        return kind(
            f"bucket {bucket} does not exist ({url}). Check the spelling, "
            f"or create it: gcloud storage buckets create gs://{bucket}"
        )
    if status == 400 and not is_transient(error):
        found = _IN_BODY.search(str(error))  # some errors quote it on several lines
        words = clip(found[1] or found[2] if found else _REQUEST.sub("", str(error).partition("\n")[0]), 300)
        return kind(f"Google refuses {url} (400: {words}). {_remedy(words, bucket)}")
    times = f", {attempts()} times" if is_transient(error) else ""
    return StorageError(
        f"cannot {action} {url}: {said or type(error).__name__}{times}. Run the same command again later."
    )


def _remedy(words: str, bucket: str) -> str:
    if re.search("requester pays|user project", words):
        return (
            "Buckets whose readers pay cannot be used. Have the owner turn that off: gcloud storage buckets update "
            f"gs://{bucket} --no-requester-pays, or copy what you need to a bucket of yours: gcloud storage cp --recursive "
            "--billing-project=PROJECT"
        )
    return "Are the names of the bucket and the folder right? gcloud storage ls"
