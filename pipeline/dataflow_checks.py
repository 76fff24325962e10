"""What would fail on Dataflow and can be known before a VM is paid for: addresses, buckets, their region, permissions.

Asked with the launcher's own credentials; whether the workers' service account may do the same is only known on the workers.
Where a question cannot be asked (no permission to see a bucket, an emulator) nothing is refused: the job will tell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.config import BuildConfig
from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.storage.gcs_bucket import parse_url

T = TypeVar("T")

_READ = ("storage.objects.list", "storage.objects.get")
_WRITE = ("storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete")
_ROLES = {_READ: "roles/storage.objectViewer", _WRITE: "roles/storage.objectUser"}
_MULTI = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}
_DUAL = {
    "NAM4": ("us-central1", "us-east1"),
    "EUR4": ("europe-north1", "europe-west4"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket, what it is here and what is done there."""

    flag: str
    url: str
    permissions: tuple[str, ...]


def check_job(config: BuildConfig) -> None:
    """``check_options`` and ``check_buckets`` by the flags alone, for a plan, which imports no Beam.

    Raises:
        UsageError: the job could not run.
    """
    region = config.beam_arg("region") or os.environ.get("CLOUDSDK_COMPUTE_REGION", "")
    staged = {name: config.beam_arg(name) for name in ("temp_location", "staging_location")}
    temp = staged["temp_location"] or staged["staging_location"] or ""
    check_options(config, project=config.beam_arg("project") or "", region=region, temp=temp)
    check_buckets(config, region=region, temp=staged, anywhere=config.cross_region)


def check_options(config: BuildConfig, *, project: str, region: str, temp: str) -> None:
    """Checks without asking anybody; that the options are given, ``BuildConfig`` has checked.

    Raises:
        UsageError: an option cannot be right, or an address is this machine's.
    """
    for root in config.roots:
        _require_bucket("input", root.url)
    _require_bucket("output", config.output)
    if not re.fullmatch(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]", project):
        raise UsageError(
            f"--project {clip(project)} is not a project's id (6 to 30 small letters, digits and hyphens, such as my-project; "
            "neither its number nor its title). List yours: gcloud projects list"
        )
    if not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", region):
        zone = re.fullmatch(r"([a-z]+-[a-z]+[0-9]+)-[a-z]", region)
        remedy = f"That is a zone; its region is {zone[1]}." if zone else "Such as us-central1."
        raise UsageError(f"--region {clip(region)} is not a region. {remedy}")
    if not re.fullmatch(
        r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/.*)?", temp
    ):  # Beam would make a bucket of its own choice
        raise UsageError(
            "Dataflow needs --temp_location: a gs:// folder for staged files, in a bucket of the same region, such as "
            f"gs://{parse_url(config.output)[0]}/shardfeed-tmp"
        )


def check_buckets(config: BuildConfig, *, region: str, temp: Mapping[str, str | None], anywhere: bool) -> None:
    """Looks at every bucket that the job uses; ``temp``: where staged files go, by flag; ``anywhere``: other regions are fine.

    Raises:
        UsageError: a bucket is absent, in another region (unless ``anywhere``), or may not be used.
    """
    places = [Place("input", root.url, _READ) for root in config.roots]
    places.append(Place("output", config.output, _WRITE))
    places += [Place(flag, url, _WRITE) for flag, url in temp.items() if url]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for place in places:
        bucket = parse_url(place.url)[0]
        if (bucket, place.permissions) not in seen:
            seen.add((bucket, place.permissions))
            _check(place, bucket, region, anywhere)


def covers(location: str, parts: Iterable[str], region: str) -> bool:
    """Whether ``region`` lies in a bucket's ``location`` (``US``, ``US-EAST1``, ``NAM4``) or in its dual region's ``parts``."""
    wide = _MULTI.get(location.upper())
    if wide is not None:
        return region.startswith(wide)
    places = {location.lower(), *(part.lower() for part in parts), *_DUAL.get(location.upper(), ())}
    return region in places


def _require_bucket(flag: str, url: str) -> None:
    if not storage.is_remote(url):
        raise UsageError(
            f"--{flag} {clip(url)} is a folder of this machine, which Dataflow's workers cannot see. "
            + (
                f"Copy it first: gcloud storage cp --recursive {clip(url)} gs://BUCKET/"
                if flag == "input"
                else "Give gs://BUCKET/FOLDER."
            )
        )


def _check(place: Place, bucket: str, region: str, anywhere: bool) -> None:
    from google.api_core.exceptions import BadRequest, Forbidden, NotFound

    from shardfeed.storage.gcs_clients import google_client

    handle = google_client().bucket(bucket)
    try:
        _asked(bucket, lambda: handle.reload(retry=None))
    except NotFound:
        raise UsageError(_absent(place, bucket, region)) from None
    except Forbidden:  # storage.buckets.get is in no object role
        pass
    else:
        _check_region(place, handle, region, anywhere)
    try:
        granted = _asked(bucket, lambda: handle.test_iam_permissions(list(place.permissions), retry=None))
    except (NotFound, BadRequest, Forbidden):  # an emulator, or a bucket that says nothing
        return
    missing = [name for name in place.permissions if name not in granted]
    if missing:
        raise UsageError(
            f"--{place.flag} {clip(place.url)}: you lack {', '.join(missing)} on bucket {bucket}. Have somebody who may run: "
            f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=user:YOU --role={_ROLES[place.permissions]} "
            "(and the same for the workers' service account)."
        )


def _asked(bucket: str, question: Callable[[], T]) -> T:
    """What is answered about a bucket, asked again while Google is busy; 400, 403 and 404 pass."""
    from google.api_core.exceptions import BadRequest, Forbidden, NotFound

    from shardfeed.storage.gcs_errors import FAILURES, is_transient, translated
    from shardfeed.storage.retry import call_with_retries

    try:
        return call_with_retries(question, is_transient)
    except (BadRequest, Forbidden, NotFound):
        raise
    except FAILURES as error:
        raise translated(error, "get", bucket, "") from error


def _absent(place: Place, bucket: str, region: str) -> str:
    remedy = (
        "Check its spelling: gcloud storage ls"
        if place.flag == "input"
        else f"Make it: gcloud storage buckets create gs://{bucket} --location={region}"
    )
    return f"--{place.flag} {clip(place.url)}: there is no bucket {bucket}. {remedy}"


def _check_region(place: Place, handle: Any, region: str, anywhere: bool) -> None:
    location = str(handle.location or "")
    if not location or anywhere or covers(location, handle.data_locations or (), region):
        return
    where = location.lower()
    fix = (
        f"Run the job there (--region {where})" if re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", where) else "Use a region of it"
    )
    raise UsageError(
        f"--{place.flag} {clip(place.url)}: bucket {handle.name} is in {location}, the workers are in {region}; every byte would "
        f"cross regions, slowly and for a fee. {fix}, use a bucket in {region}, or accept it with --cross_region."
    )
