"""What would fail on Dataflow, or cost too much there, and can be known before a VM is paid for.

Beam and the service refuse wrong names and numbers themselves when the job is handed over. This
file refuses what both accept: a job that never ends, files staged among the data, an image that no
worker can fetch, and buckets that cannot be used (``buckets.py``).
"""

from __future__ import annotations

import os
import re

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.pipeline.config.engine import Engine
from shardfeed.transforms.inputs.roots import InputRoot

_STAGED_FLAGS = ("temp_location", "staging_location", "template_location")
_TEMPLATE = "template_location"  # a small file; the other flags name folders
_IMAGE = r"[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]+)?"


def check_job(engine: Engine, *, roots: tuple[InputRoot, ...], output: str, cross_region: bool) -> None:
    """Checks the flags of a build on Dataflow and looks at every bucket that it uses.

    Buckets in another region than the workers are refused unless ``cross_region`` accepts them.

    Raises:
        UsageError: the job could not run, or would run for nothing.
    """
    check_flags(engine, roots=roots, output=output)
    from shardfeed.pipeline.dataflow import buckets  # loads Google's client

    places = [buckets.BucketPlace("input", root.url, buckets.READ_PERMISSIONS) for root in roots]
    places.append(buckets.BucketPlace("output", output, buckets.WRITE))
    for flag in _STAGED_FLAGS:
        if url := engine.arg(flag):
            permissions = buckets.CREATE if flag == _TEMPLATE else buckets.STAGE
            places.append(buckets.BucketPlace(flag, url, permissions, any_region=flag == _TEMPLATE))
    region, put_by = _region_of_workers(engine)
    buckets.check(places, region=None if cross_region else region, put_by=put_by)


def check_flags(engine: Engine, *, roots: tuple[InputRoot, ...], output: str) -> None:
    """Checks flags and addresses by themselves; no request is sent.

    Raises:
        UsageError: a flag has an impossible value, an address is a folder of this machine, or
            staged files would lie among the images or in the dataset.
    """
    for root in roots:
        _require_bucket(
            "input", root.url, f"Copy it first: gcloud storage cp --recursive {clip(root.url)} gs://BUCKET/"
        )
        for found in root.lists:
            _require_bucket("input", found.url, f"Copy it first: gcloud storage cp {clip(found.url)} gs://BUCKET/")
    _require_bucket("output", output, "Give gs://BUCKET/FOLDER.")
    if "--streaming" in engine.args:
        raise UsageError("--streaming: a build is a batch job; as a streaming job it would never end. Leave it out.")
    dry = engine.arg("dry_run")
    if dry is not None:  # any value is true to Beam, which then runs nothing and reports success
        raise UsageError(f"--dry_run {clip(dry)}: nothing would be built. Leave it out; for a forecast: shardfeed plan")
    image = engine.arg("sdk_container_image")
    if image and not re.fullmatch(_IMAGE, image):  # workers would start, and try to fetch it for an hour
        raise UsageError(
            f"--sdk_container_image {clip(image)} is not an image's address. Give one such as "
            "us-docker.pkg.dev/my-project/images/shardfeed:0.1.0; only its tag may have capitals."
        )
    for flag in _STAGED_FLAGS:
        if url := engine.arg(flag):
            _check_staged(flag, url, roots=roots, output=output)


def _require_bucket(flag: str, url: str, remedy: str) -> None:
    if not storage.is_remote(url):
        raise UsageError(
            f"--{flag} {clip(url)} is a folder of this machine, which Dataflow's workers cannot see. {remedy}"
        )


def _check_staged(flag: str, url: str, *, roots: tuple[InputRoot, ...], output: str) -> None:
    """Refuses a place for staged files outside of buckets, or among the dataset's or the images."""
    what, end = ("file", r"/.*[^/]") if flag == _TEMPLATE else ("folder", "(/.*)?")
    remedy = f"such as --{flag} gs://BUCKET/shardfeed-tmp" + ("/template" if flag == _TEMPLATE else "")
    if not re.fullmatch(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]" + end, url):
        # Beam would make a bucket of its own choice, or write to this machine.
        raise UsageError(
            f"--{flag} {clip(url)}: Dataflow needs a gs:// {what} here, for "
            f"{'the job' if flag == _TEMPLATE else 'staged files'}. Give one in a bucket of the workers' region, {remedy}"
        )
    if _lies_in(url, output):
        lies_in = f"--output {clip(output)}: the build would find what is staged there, and take it for somebody else's"
    elif root := next((root for root in roots if not root.globs and _lies_in(url, root.url)), None):
        # Globs would not match it, or its suffix is skipped, and no class folder is asked for its
        # images.
        lies_in = f"--input {clip(root.url)}: what is staged there would be listed with the images"
    else:
        return
    raise UsageError(f"--{flag} {clip(url)} lies in {lies_in}. Give a {what} outside of it, {remedy}")


def _lies_in(url: str, folder: str) -> bool:
    """Whether ``url`` is ``folder`` or lies below it."""
    return (storage.normal_url(url) + "/").startswith(storage.normal_url(folder) + "/")


def _region_of_workers(engine: Engine) -> tuple[str, str]:
    """The region that the workers run in; and the flag for it, if not ``--region``."""
    for flag in ("worker_region", "worker_zone", "zone"):
        if value := engine.arg(flag):
            region = value if flag == "worker_region" else value.rpartition("-")[0] or value
            return region, f"--{flag} {value}"
    return engine.arg("region") or os.environ.get("CLOUDSDK_COMPUTE_REGION", ""), ""
