"""What an object store's errors mean: try again, change something, or give up for now."""

from __future__ import annotations

import re
from typing import Literal

import obstore

from shardfeed.errors import ShardfeedError, UsageError, clip
from shardfeed.storage.base import StorageError, UnreadableError
from shardfeed.storage.retry import attempts

ObjectAction = Literal["list", "get", "create", "delete"]

_STATUS = re.compile(r"status code: (\d{3})")
# Answers of status 400 that are gone at the next attempt: Google's front end gives the first
# without a reason, the second is for bytes that changed on the way.
_PASSING = re.compile(r"malformed or illegal request|doesn.t match calculated")
_IN_BODY = re.compile(r'"message": *"((?:[^"\\]|\\.)*)"|<Message>([^<]*)')
_REQUEST = re.compile(r"^(\d{3} )?[A-Z]+ https?://\S+: ")
# Where a machine of AWS or Azure asks for its own account, which obstore tries last.
_ASKED_THE_MACHINE = re.compile(r"/latest/(api/token|meta-data)|/metadata/identity/")
# Why there was no connection, deep in obstore's account of an error: "dns error", "Name or service
# not known".
_NO_CONNECTION = re.compile(r'ConnectError\(\s*"([^"]+)".*?(?:error|message): "([^"]+)"', re.DOTALL)
_WRONG_REGION = "incorrectly configured region"
_NO_RANGES = "Range request not supported"
_NO_PATH = re.compile(r'invalid path: .*?[Pp]ath "(.*?)"(?: contained|: )')  # of a listed object
_ROLES = {
    "list": "roles/storage.objectViewer",
    "get": "roles/storage.objectViewer",
    "create": "roles/storage.objectUser",
    "delete": "roles/storage.objectUser",
}
_LOG_IN = {
    "s3": "Set AWS_PROFILE (with boto3 installed), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of an account that has "
    "s3:GetObject and s3:ListBucket there. For a public bucket, set AWS_SKIP_SIGNATURE=true.",
    "az": "Set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_USE_AZURE_CLI=true after az login, of an account "
    "with the role Storage Blob Data Reader. For a public container, set AZURE_SKIP_SIGNATURE=true.",
}
_WHERE = {
    "s3": ("bucket", "Check the spelling, AWS_REGION and AWS_ENDPOINT_URL."),
    "az": ("container", "Check the spelling and AZURE_STORAGE_ACCOUNT_NAME."),
}


def failures() -> tuple[type[Exception], ...]:
    """What obstore raises for what happens outside this process.

    Asked for at each error: a forked process has other classes.
    """
    return obstore.exceptions.BaseError, OSError


def status_of(error: Exception) -> int | None:
    """The HTTP status behind obstore's error; None if there was no answer."""
    if isinstance(error, FileNotFoundError):  # obstore's "not found"
        return 404
    if isinstance(error, obstore.exceptions.UnauthenticatedError):
        return 401
    if isinstance(error, obstore.exceptions.PermissionDeniedError):
        return 403
    found = _STATUS.search(str(error)) if isinstance(error, obstore.exceptions.BaseError) else None
    return int(found[1]) if found else None


def is_behind_the_end(error: Exception) -> bool:
    """True if a range was asked for that begins behind the last byte."""
    return status_of(error) == 416 or "Wanted range starting at" in str(error)


def lacks_header(error: Exception) -> bool:
    """True if obstore refuses an answer without length or tag, as of an object of gzip."""
    return isinstance(error, obstore.exceptions.BaseError) and "Header missing from response" in str(error)


def is_passing(status: int, said: str) -> bool:
    """True if a request with this answer may succeed later: overload, a server's fault."""
    return status in (408, 429) or status >= 500 or (status == 400 and _PASSING.search(said) is not None)


def is_transient(error: Exception) -> bool:
    """True if the same request may succeed later."""
    said, status = str(error), status_of(error)
    if status is not None:
        return is_passing(status, said)
    final = _ASKED_THE_MACHINE.search(said) or _WRONG_REGION in said or _NO_RANGES in said or _NO_PATH.search(said)
    return isinstance(error, failures()) and not final


def users_error(error: Exception, action: ObjectAction, scheme: str, bucket: str, name: str) -> ShardfeedError:
    """The error to raise for a failure that was final or lasted through all attempts."""
    return explained(
        str(error) or type(error).__name__, status_of(error), is_transient(error), action, scheme, bucket, name
    )


def explained(
    text: str, status: int | None, transient: bool, action: ObjectAction, scheme: str, bucket: str, name: str
) -> ShardfeedError:
    """The error for a failure that says ``text`` and has this HTTP ``status``."""
    url = f"{bucket}/{clip(name)}" if scheme.startswith("http") else f"{scheme}://{bucket}/{clip(name)}"
    said = clip(text.partition("\n")[0], 300)
    kind = UnreadableError if action in ("list", "get") else UsageError
    if transient and (found := _NO_CONNECTION.search(text)):
        return StorageError(
            f"cannot {action} {url}: {found[1]}, {clip(found[2])}, {attempts()} times. Check the address and the network, then "
            "run the same command again."
        )
    if transient:
        return StorageError(f"cannot {action} {url}: {said}, {attempts()} times. Run the same command again later.")
    if _ASKED_THE_MACHINE.search(text):
        return kind(f"{scheme}:// needs credentials and none were found for {url}. {_LOG_IN[scheme]}")
    if _WRONG_REGION in text:
        return kind(f"{url} lies in another region ({said}). Set AWS_REGION to the one of bucket {bucket}.")
    if _NO_RANGES in text:
        return kind(
            f"{url} is sent as a whole whatever range of it is asked for. Serve the dataset by a server that answers "
            "requests for ranges, such as nginx, Apache or a bucket."
        )
    if found := _NO_PATH.search(text):
        return kind(
            f"{scheme}://{bucket}/{clip(found[1])} cannot be read: {scheme}:// is read by paths, which hold no empty part, no "
            ". or .. and no control character. Rename the object, or give an --input beside it."
        )
    if status in (401, 403):
        return kind(_no_permission(status, said, action, scheme, bucket, url))
    if status == 404 and scheme == "gs":
        return kind(
            f"bucket {bucket} does not exist ({url}). Check the spelling, "
            f"or create it: gcloud storage buckets create gs://{bucket}"
        )
    if status == 404 and scheme in _WHERE:
        what, remedy = _WHERE[scheme]
        return kind(f"{what} {bucket} does not exist ({url}). {remedy}")
    if status == 400:
        found = _IN_BODY.search(text)  # some errors quote it on several lines
        words = clip(found[1] or found[2] if found else _REQUEST.sub("", text.partition("\n")[0]), 300)
        if scheme == "gs":
            return kind(f"Google refuses {url} (400: {words}). {_remedy(words, bucket)}")
        return kind(f"{url} is refused (400: {words}). Check the address and the credentials.")
    return StorageError(f"cannot {action} {url}: {said}. Run the same command again later.")


def _no_permission(status: int, said: str, action: ObjectAction, scheme: str, bucket: str, url: str) -> str:
    if scheme == "gs":
        return (
            f"permission storage.objects.{action} is missing on bucket {bucket} for {url} ({status}: {said}). "
            f"Grant it: gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=ACCOUNT --role={_ROLES[action]}"
        )
    remedy = _LOG_IN.get(scheme, "Make the folder readable without a login, or copy the dataset.")
    return f"no permission to {action} {url} ({status}: {said}). {remedy}"


def _remedy(words: str, bucket: str) -> str:
    if re.search("requester pays|user project", words):
        return (
            "Buckets whose readers pay cannot be used. Have the owner turn that off: gcloud storage buckets update "
            f"gs://{bucket} --no-requester-pays, or copy what you need to a bucket of yours: gcloud storage cp --recursive "
            "--billing-project=PROJECT"
        )
    return "Are the names of the bucket and the folder right? gcloud storage ls"
