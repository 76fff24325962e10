"""The buckets of a job: is each there, is it in the workers' region, and may the launcher use it?

Google is asked with the launcher's own credentials. Whether the workers' service account may do the
same is only known on the workers. If a question cannot be asked (of an emulator, or of a bucket
that says nothing), nothing is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.api_core.exceptions import BadRequest, Forbidden, NotFound

from shardfeed.errors import UsageError, clip
from shardfeed.storage.address import split_gs_url
from shardfeed.storage.gcs_clients import google_client
from shardfeed.storage.gcs_errors import FAILURES, is_transient, users_error
from shardfeed.storage.retry import call_with_retries

T = TypeVar("T")

_DESCRIBE = "storage.buckets.get"  # in no role of objects; Beam asks for the bucket before it stages a file there
READ_PERMISSIONS = ("storage.objects.list", "storage.objects.get")
WRITE = ("storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete")
STAGE = (_DESCRIBE, *WRITE)
CREATE = (_DESCRIBE, "storage.objects.create", "storage.objects.get")

# https://cloud.google.com/storage/docs/locations
_CONTINENTS = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}
_OUT_OF_EU = ("europe-west2", "europe-west6")  # London and Zurich: in Europe, not in the multi-region
_PAIRS = {
    "NAM4": ("us-central1", "us-east1"),
    "EUR4": ("europe-north1", "europe-west4"),
    "EUR5": ("europe-west1", "europe-west2"),
    "EUR7": ("europe-west2", "europe-west3"),
    "EUR8": ("europe-west3", "europe-west6"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
}


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """An address that a flag names, and what the job does there."""

    flag: str
    url: str
    permissions: tuple[str, ...]
    any_region: bool = False

    @property
    def bucket(self) -> str:
        return split_gs_url(self.url)[0]

    def __str__(self) -> str:
        return f"--{self.flag} {clip(self.url)}"


def check(places: Sequence[BucketPlace], *, region: str | None, put_by: str) -> None:
    """Looks at the bucket of each place once per set of permissions.

    ``region`` is the workers', None if any will do. ``put_by`` is the flag and value that put them
    there, empty if ``--region`` did.

    Raises:
        UsageError: a bucket is absent, in another region, or may not be used.
    """
    first: dict[tuple[str, tuple[str, ...]], BucketPlace] = {}
    for place in places:
        first.setdefault((place.bucket, place.permissions), place)
    for place in first.values():
        _check(place, None if place.any_region else region, put_by)


def covers(location: str, parts: Iterable[str], region: str) -> bool:
    """Whether ``region`` lies in a bucket's ``location`` (``US``, ``US-EAST1``, ``NAM4``).

    If the bucket's owner chose the two regions of a dual region, ``location`` is their continent,
    and only its ``parts`` count.
    """
    if chosen := {part.lower() for part in parts}:
        return region in chosen
    if continent := _CONTINENTS.get(location.upper()):
        return region.startswith(continent) and region not in _OUT_OF_EU
    return region in (location.lower(), *_PAIRS.get(location.upper(), ()))


def _check(place: BucketPlace, region: str | None, put_by: str) -> None:
    handle = google_client().bucket(place.bucket)
    try:
        _asked(place, lambda: handle.reload(retry=None))
        location, parts = str(handle.location or ""), tuple(handle.data_locations or ())
    except NotFound:
        remedy = "Check its spelling: gcloud storage ls"
        if place.flag != "input":
            where = f" --location={region}" if region else ""
            remedy = f"Make it: gcloud storage buckets create gs://{place.bucket}{where}"
        raise UsageError(f"{place}: there is no bucket {place.bucket}. {remedy}") from None
    except BadRequest as error:
        raise UsageError(f"{place}: {users_error(error, 'get', place.bucket, '')}") from error
    except Forbidden:  # _DESCRIBE is missing
        location, parts = _listed_location(place)
    if location and region is not None and not covers(location, parts, region):
        raise UsageError(_far(place, location, parts, region, put_by))
    try:
        granted = _asked(place, lambda: handle.test_iam_permissions(list(place.permissions), retry=None))
    except (NotFound, BadRequest, Forbidden):  # an emulator, or a bucket that says nothing
        return
    if missing := [name for name in place.permissions if name not in granted]:
        raise UsageError(
            f"{place}: you lack {', '.join(missing)} on bucket {place.bucket}. Have somebody who may run: "
            f"{_grants(place, missing)}."
        )


def _grants(place: BucketPlace, missing: Sequence[str]) -> str:
    """Commands that grant what is ``missing``; to see a bucket takes a role of its own."""
    grant = f"gcloud storage buckets add-iam-policy-binding gs://{place.bucket} --member=user:YOU --role=roles/storage."
    commands = [f"{grant}legacyBucketReader"] if _DESCRIBE in missing else []
    if set(missing) - {_DESCRIBE}:
        role = "objectViewer" if place.permissions == READ_PERMISSIONS else "objectUser"
        commands.append(f"{grant}{role} (and the same for the workers' service account)")
    return ", and: ".join(commands)


def _far(place: BucketPlace, location: str, parts: Sequence[str], region: str, put_by: str) -> str:
    """The message for a bucket in another region, where every byte costs more than the job."""
    shown = f"{location} ({', '.join(parts)})" if parts else location
    there = "Use a region of it"
    if re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", location.lower()):
        without = f" without {put_by.partition(' ')[0]}" if put_by else ""
        there = f"Run the job there (--region {location.lower()}{without})"
    because = f" ({put_by})" if put_by else ""
    return (
        f"{place}: bucket {place.bucket} is in {shown}, the workers are in {region}{because}; every byte would cross regions, "
        f"slowly and for a fee. {there}, use a bucket in {region}, or accept it with --cross_region."
    )


def _listed_location(place: BucketPlace) -> tuple[str, tuple[str, ...]]:
    """Location and parts (as in ``covers``) of a bucket, by its listing; empty if unknown.

    https://cloud.google.com/storage/docs/json_api/v1/buckets/getStorageLayout
    """
    bucket, folder = split_gs_url(place.url)
    connection = google_client()._connection  # it has no method for this
    query = {"prefix": folder} if folder else {}  # a role may be that of a managed folder
    try:
        found = _asked(place, lambda: connection.api_request("GET", f"/b/{bucket}/storageLayout", query_params=query))
    except (NotFound, BadRequest, Forbidden):
        return "", ()
    location = str(found.get("location") or "")
    # In Google's clients, not on that page.
    parts = tuple((found.get("customPlacementConfig") or {}).get("dataLocations") or ())
    unknown = found.get("locationType") == "dual-region" and location in _CONTINENTS and not parts
    return "" if unknown else location, parts


def _asked(place: BucketPlace, question: Callable[[], T]) -> T:
    """Google's answer about a bucket. Asks a busy service again; raises 400, 403 and 404."""
    try:
        return call_with_retries(question, is_transient)
    except (BadRequest, Forbidden, NotFound):
        raise
    except FAILURES as error:
        raise users_error(error, "get", place.bucket, "") from error
