"""What would fail on Dataflow and can be known before a VM is paid for: addresses, buckets, their region, permissions.

Asked with the launcher's own credentials; whether the workers' service account may do the same is only known on the workers.
Where a question cannot be asked (an emulator, a bucket that says nothing) nothing is refused: the job will tell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.pipeline.config.engine import Engine
from shardfeed.storage.address import split_gs_url
from shardfeed.transforms.inputs.roots import InputRoot

T = TypeVar("T")

_READ = ("storage.objects.list", "storage.objects.get")
_WRITE = ("storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete")
_DESCRIBE = "storage.buckets.get"  # in no role of objects; Beam asks for the bucket before it stages a file there
_STAGE = (_DESCRIBE, *_WRITE)
_PUT = (_DESCRIBE, "storage.objects.create", "storage.objects.get")
STAGED_FLAGS = ("temp_location", "staging_location", "template_location")
_TEMPLATE = "template_location"  # a file, where the others are folders; small, so its bucket's region does not matter
_REGION = r"[a-z]+-[a-z]+[0-9]+"
_ZONE = rf"({_REGION})-[a-z0-9]+"  # us-central1-a, us-south1-ai1b
_IMAGE = r"[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]+)?"
_MULTI = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}
_COUNTED = {
    "num_workers": "VMs",
    "max_num_workers": "VMs",
    "number_of_worker_harness_threads": "bundles at a time",
    "disk_size_gb": "GB",
}
_OUT_OF_EU = ("europe-west2", "europe-west6")  # London, Zurich: of Europe, not of the multi-region
_DUAL = {
    "NAM4": ("us-central1", "us-east1"),
    "EUR4": ("europe-north1", "europe-west4"),
    "EUR5": ("europe-west1", "europe-west2"),
    "EUR7": ("europe-west2", "europe-west3"),
    "EUR8": ("europe-west3", "europe-west6"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket, what it is here and what is done there."""

    flag: str
    url: str
    permissions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workplace:
    """Region that the workers run in, and the flag and value that put them elsewhere than ``--region``, if any."""

    region: str
    flag: str = ""
    value: str = ""


def check_job(engine: Engine, *, roots: tuple[InputRoot, ...], output: str, anywhere: bool) -> None:
    """``check_options`` and ``check_buckets`` by the flags alone, for a plan, which imports no Beam.

    Raises:
        UsageError: the job could not run.
    """
    region = engine.arg("region") or os.environ.get("CLOUDSDK_COMPUTE_REGION", "")
    staged = {name: engine.arg(name) for name in STAGED_FLAGS}
    project = engine.arg("project") or ""
    check_options(engine, roots=roots, output=output, project=project, region=region, temp=staged)
    check_buckets(engine, roots=roots, output=output, region=region, temp=staged, anywhere=anywhere)


def check_options(
    engine: Engine,
    *,
    roots: tuple[InputRoot, ...],
    output: str,
    project: str,
    region: str,
    temp: Mapping[str, str | None],
) -> None:
    """Checks without asking anybody; ``temp`` as in ``check_buckets``. That they are given, ``Engine`` has checked.

    Raises:
        UsageError: an option cannot be right, or an address is this machine's, or staged files would lie among others.
    """
    for root in roots:
        _require_bucket("input", root.url)
    _require_bucket("output", output)
    if not re.fullmatch(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]", project):
        raise UsageError(
            f"--project {clip(project)} is not a project's id (6 to 30 small letters, digits and hyphens, such as my-project; "
            "neither its number nor its title). List yours: gcloud projects list"
        )
    _require_region("region", region)
    _workplace(engine, region)
    _check_workers(engine)
    for flag, url in temp.items():
        if url:
            _check_staged(flag, url, roots=roots, output=output)


def check_buckets(
    engine: Engine,
    *,
    roots: tuple[InputRoot, ...],
    output: str,
    region: str,
    temp: Mapping[str, str | None],
    anywhere: bool,
) -> None:
    """Looks at every bucket that the job uses; ``temp``: where staged files go, by flag; ``anywhere``: other regions are fine.

    ``region`` is the job's; buckets are compared with the workers', which another flag may have put elsewhere.

    Raises:
        UsageError: a bucket is absent, in another region (unless ``anywhere``), or may not be used.
    """
    workers = _workplace(engine, region)
    places = [Place("input", root.url, _READ) for root in roots]
    places.append(Place("output", output, _WRITE))
    places += [Place(flag, url, _PUT if flag == _TEMPLATE else _STAGE) for flag, url in temp.items() if url]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for place in places:
        bucket = split_gs_url(place.url)[0]
        if (bucket, place.permissions) not in seen:
            seen.add((bucket, place.permissions))
            _check(place, bucket, workers, anywhere or place.flag == _TEMPLATE)


def covers(location: str, parts: Iterable[str], region: str) -> bool:
    """Whether ``region`` lies in a bucket's ``location`` (``US``, ``US-EAST1``, ``NAM4``).

    Of a dual region that the bucket's owner has put together ``location`` is the continent, and only its ``parts`` count.
    """
    if chosen := {part.lower() for part in parts}:
        return region in chosen
    wide = _MULTI.get(location.upper())
    if wide is not None:
        return region.startswith(wide) and region not in _OUT_OF_EU
    return region in (location.lower(), *_DUAL.get(location.upper(), ()))


def _require_region(flag: str, region: str) -> None:
    if not re.fullmatch(_REGION, region):
        zone = re.fullmatch(_ZONE, region)
        remedy = f"That is a zone; its region is {zone[1]}." if zone else "Such as us-central1."
        raise UsageError(f"--{flag} {clip(region)} is not a region. {remedy}")


def _workplace(engine: Engine, region: str) -> Workplace:
    """Where the workers of a job in ``region`` run: there, unless one of Beam's flags says otherwise."""
    given = [(flag, value) for flag in ("worker_region", "worker_zone", "zone") if (value := engine.arg(flag))]
    if not given:
        return Workplace(region)
    if len(given) > 1:
        both = " and ".join(f"--{flag} {clip(value)}" for flag, value in given)
        raise UsageError(f"{both} both say where the workers run. Give one of them; without any they run in {region}.")
    ((flag, value),) = given
    if flag == "worker_region":
        _require_region(flag, value)
        return Workplace(value, flag, value)
    zone = re.fullmatch(_ZONE, value)
    if zone is None:
        raise UsageError(
            f"--{flag} {clip(value)} is not a zone. Such as {region}-a; for a whole region: --worker_region"
        )
    return Workplace(zone[1], flag, value)


def _check_workers(engine: Engine) -> None:
    """What Beam would pass on, or run without a job."""
    if "--streaming" in engine.args:
        raise UsageError("--streaming: a build is a batch job; as a streaming job it would never end. Leave it out.")
    dry = engine.arg("dry_run")
    if dry is not None:  # any value is true to Beam
        raise UsageError(f"--dry_run {clip(dry)}: nothing would be built. Leave it out; for a forecast: shardfeed plan")
    counts = {}
    for flag, what in _COUNTED.items():
        if (value := engine.arg(flag)) is None:
            continue
        if not re.fullmatch(r"0*[1-9][0-9]{0,8}", value):
            raise UsageError(f"--{flag} {clip(value)} is not a number of {what}. Give 1 or more, or leave it out.")
        counts[flag] = int(value)
    for flag in ("worker_machine_type", "machine_type"):
        if engine.arg(flag) == "":
            raise UsageError(f"--{flag} is empty. Give a type, such as n2-standard-4, or leave it out.")
    image = engine.arg("sdk_container_image")
    if image and not re.fullmatch(_IMAGE, image):  # workers would start, and try to fetch it for an hour
        raise UsageError(
            f"--sdk_container_image {clip(image)} is not an image's address. Give one such as "
            "us-docker.pkg.dev/my-project/images/shardfeed:0.1.0; only its tag may have capitals."
        )
    first, most = counts.get("num_workers", 1), counts.get("max_num_workers")
    if most is not None and first > most:
        raise UsageError(
            f"--num_workers {first} is more than --max_num_workers {most}: VMs at first, and at most. Lower the one or raise the "
            "other."
        )


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


def _check_staged(flag: str, url: str, *, roots: tuple[InputRoot, ...], output: str) -> None:
    """Refuses an address for staged files that is none, or where they would be taken for the dataset's or for images."""
    what, end = ("file", r"/.*[^/]") if flag == _TEMPLATE else ("folder", "(/.*)?")
    remedy = f"such as --{flag} {_elsewhere(roots, output)}" + ("/template" if flag == _TEMPLATE else "")
    if not re.fullmatch(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]" + end, url):
        # Beam would make a bucket of its own choice, or write to this machine.
        raise UsageError(
            f"--{flag} {clip(url)}: Dataflow needs a gs:// {what} here, for "
            f"{'the job' if flag == _TEMPLATE else 'staged files'}. Give one in a bucket of the workers' region, {remedy}"
        )
    if _lies_in(url, output):
        where, why = "output", "the build would find what is staged there, and take it for somebody else's"
        folder = output
    elif root := next((root for root in roots if not root.globs and _lies_in(url, root.url)), None):
        # With globs it would match none of them, or be skipped for its suffix, and no class folder is asked for its images.
        where, why = "input", "what is staged there would be listed with the images"
        folder = root.url
    else:
        return
    raise UsageError(
        f"--{flag} {clip(url)} lies in --{where} {clip(folder)}: {why}. Give a {what} outside of it, {remedy}"
    )


def _lies_in(url: str, folder: str) -> bool:
    """Whether ``url`` is ``folder`` or lies below it."""
    return (storage.normal_url(url) + "/").startswith(storage.normal_url(folder) + "/")


def _elsewhere(roots: tuple[InputRoot, ...], output: str) -> str:
    """A folder for staged files that is neither the output's nor the input's."""
    found = f"gs://{split_gs_url(output)[0]}/shardfeed-tmp"
    if any(_lies_in(found, folder) for folder in (output, *(root.url for root in roots))):
        return "gs://ANOTHER-BUCKET/shardfeed-tmp"
    return found


def _check(place: Place, bucket: str, workers: Workplace, anywhere: bool) -> None:
    from google.api_core.exceptions import BadRequest, Forbidden, NotFound

    from shardfeed.storage.gcs_clients import google_client
    from shardfeed.storage.gcs_errors import users_error

    handle = google_client().bucket(bucket)
    try:
        _asked(bucket, lambda: handle.reload(retry=None))
        location, parts = str(handle.location or ""), tuple(handle.data_locations or ())
    except NotFound:
        raise UsageError(_absent(place, bucket, workers.region)) from None
    except BadRequest as error:
        raise UsageError(f"--{place.flag} {clip(place.url)}: {users_error(error, 'get', bucket, '')}") from error
    except Forbidden:  # _DESCRIBE is missing
        location, parts = _listed_location(place.url)
    if location and not anywhere:
        _check_region(place, location, parts, workers)
    try:
        granted = _asked(bucket, lambda: handle.test_iam_permissions(list(place.permissions), retry=None))
    except (NotFound, BadRequest, Forbidden):  # an emulator, or a bucket that says nothing
        return
    missing = [name for name in place.permissions if name not in granted]
    if missing:
        raise UsageError(
            f"--{place.flag} {clip(place.url)}: you lack {', '.join(missing)} on bucket {bucket}. Have somebody who may run: "
            f"{_grants(place, bucket, missing)}."
        )


def _grants(place: Place, bucket: str, missing: Sequence[str]) -> str:
    """Commands that grant what is ``missing``; to see a bucket is a role of its own, which the workers need not have."""
    grant = f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=user:YOU --role=roles/storage."
    commands = [f"{grant}legacyBucketReader"] if _DESCRIBE in missing else []
    if set(missing) - {_DESCRIBE}:
        role = "objectViewer" if place.permissions == _READ else "objectUser"
        commands.append(f"{grant}{role} (and the same for the workers' service account)")
    return ", and: ".join(commands)


def _listed_location(url: str) -> tuple[str, tuple[str, ...]]:
    """Location and parts (as ``covers``) of the bucket of ``url``, as told to whoever may list it; empty where that is not told.

    https://cloud.google.com/storage/docs/json_api/v1/buckets/getStorageLayout
    """
    from google.api_core.exceptions import BadRequest, Forbidden, NotFound

    from shardfeed.storage.gcs_clients import google_client

    bucket, folder = split_gs_url(url)
    connection = google_client()._connection  # it has no method for this
    query = {"prefix": folder} if folder else {}  # a role may be that of a managed folder
    try:
        found = _asked(bucket, lambda: connection.api_request("GET", f"/b/{bucket}/storageLayout", query_params=query))
    except (NotFound, BadRequest, Forbidden):
        return "", ()
    location = str(found.get("location") or "")
    parts = tuple(
        (found.get("customPlacementConfig") or {}).get("dataLocations") or ()
    )  # in Google's clients, not on that page
    untold = found.get("locationType") == "dual-region" and location in _MULTI and not parts
    return "" if untold else location, parts


def _asked(bucket: str, question: Callable[[], T]) -> T:
    """What is answered about a bucket, asked again while Google is busy; 400, 403 and 404 pass."""
    from google.api_core.exceptions import BadRequest, Forbidden, NotFound

    from shardfeed.storage.gcs_errors import FAILURES, is_transient, users_error
    from shardfeed.storage.retry import call_with_retries

    try:
        return call_with_retries(question, is_transient)
    except (BadRequest, Forbidden, NotFound):
        raise
    except FAILURES as error:
        raise users_error(error, "get", bucket, "") from error


def _absent(place: Place, bucket: str, region: str) -> str:
    remedy = (
        "Check its spelling: gcloud storage ls"
        if place.flag == "input"
        else f"Make it: gcloud storage buckets create gs://{bucket} --location={region}"
    )
    return f"--{place.flag} {clip(place.url)}: there is no bucket {bucket}. {remedy}"


def _check_region(place: Place, location: str, parts: Sequence[str], workers: Workplace) -> None:
    region, bucket = workers.region, split_gs_url(place.url)[0]
    if covers(location, parts, region):
        return
    where = location.lower()
    without = f" without --{workers.flag}" if workers.flag else ""
    fix = f"Run the job there (--region {where}{without})" if re.fullmatch(_REGION, where) else "Use a region of it"
    shown = f"{location} ({', '.join(parts)})" if parts else location
    because = f" (--{workers.flag} {workers.value})" if workers.flag else ""
    raise UsageError(
        f"--{place.flag} {clip(place.url)}: bucket {bucket} is in {shown}, the workers are in {region}{because}; every "
        f"byte would cross regions, slowly and for a fee. {fix}, use a bucket in {region}, or accept it with --cross_region."
    )
