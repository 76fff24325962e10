"""Refusals, silence, broken bodies and lost answers of GCS. Nothing waits: pauses are noted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardfeed import storage
from shardfeed.errors import ConflictError, UsageError
from shardfeed.storage import Stat, StorageError, UnreadableError
from shardfeed.transforms import stores
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.sources.base import ChangedError, Listed, Source
from shardfeed.transforms.stores.base import WritableStore
from tests.kit.servers.gcs_requests import Kind
from tests.kit.servers.strict_gcs import Effect, StrictGCS


@pytest.fixture
def source(strict_gcs: StrictGCS) -> Source:
    strict_gcs.page_size = 2
    for n in range(14):
        strict_gcs.objects.put("bucket", f"in/cat/{n:02d}.jpg", b"%d" % n * 1000)
    return open_source("gs://bucket/in")


@pytest.fixture
def image(source: Source, strict_gcs: StrictGCS) -> Listed:
    entry = next(iter(source.list(b"cat/")))
    strict_gcs.log.clear()
    return entry


@pytest.fixture
def store(strict_gcs: StrictGCS) -> WritableStore:
    return stores.open_output("gs://bucket/out")


# Listing


@pytest.mark.parametrize(
    ("effect", "status"),
    [*(("status", status) for status in (408, 429, 500, 503, 504)), ("drop", 0), ("lost_answer", 0)],
)
def test_a_page_that_is_refused_or_broken_for_now_is_asked_for_again(
    strict_gcs: StrictGCS, source: Source, waits: list[float], effect: Effect, status: int
) -> None:
    strict_gcs.inject(effect, "list", status=status, skip=2, times=3)
    assert [entry.key for entry in source.list(b"cat/")] == [b"cat/%02d.jpg" % n for n in range(14)]
    assert (strict_gcs.counts(), len(waits)) == ({"list": 7 + 3}, 3)


def test_a_listing_that_is_refused_for_ever_ends_after_ten_attempts_with_pauses_that_double_and_vary(
    strict_gcs: StrictGCS, source: Source, waits: list[float]
) -> None:
    strict_gcs.inject("status", "list", status=503, times=None)
    with pytest.raises(StorageError, match=r"cannot list gs://bucket/in/: 503 .*10 times\. Run the same command again"):
        source.sections()
    assert strict_gcs.counts() == {"list": 10}
    shares = [wait / limit for wait, limit in zip(waits, [0.25, 0.5, 1, 2, 4, 8, 16, 16, 16], strict=True)]
    assert all(1 / 2 <= share <= 1 for share in shares)
    assert len(set(shares)) > 1


def test_permission_lost_on_page_three_is_an_error_and_not_a_shorter_listing(
    strict_gcs: StrictGCS, source: Source, waits: list[float]
) -> None:
    strict_gcs.inject("status", "list", status=403, skip=2, times=None)
    with pytest.raises(
        UnreadableError, match=r"storage\.objects\.list is missing on bucket bucket for gs://bucket/in/cat/"
    ):
        list(source.list(b"cat/"))
    assert (strict_gcs.counts(), waits) == ({"list": 3}, [])


PAYS = "Bucket is requester pays bucket but no user project provided."


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (
            PAYS,
            "Buckets whose readers pay cannot be used. Have the owner turn that off: gcloud storage buckets update gs://bucket",
        ),
        ("Invalid bucket name: 'bucket'", "Are the names of the bucket and the folder right? gcloud storage ls"),
    ],
    ids=["readers pay", "no name"],
)
@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        ("list", lambda: list(open_source("gs://bucket/in").list(b"cat/"))),
        ("get", lambda: open_source("gs://bucket/in").read(b"a", Stat(1, 1))),
        ("get", lambda: stores.open_output("gs://bucket/out").read("a")),
        ("upload", lambda: stores.open_output("gs://bucket/out").create("a", b"x")),
    ],
    ids=["list", "read an image", "read", "create"],
)
def test_what_no_rerun_mends_is_a_bad_argument_with_googles_words(
    strict_gcs: StrictGCS, waits: list[float], kind: Kind, ask: Callable[[], object], text: str, remedy: str
) -> None:
    strict_gcs.inject("status", kind, status=400, text=text)
    with pytest.raises(UsageError) as raised:
        ask()
    assert str(raised.value).startswith("Google refuses gs://bucket/")
    assert f" (400: {text}). {remedy}" in str(raised.value)
    assert waits == []


@pytest.mark.parametrize("kind", ["list", "get"])
def test_a_refusal_without_a_reason_is_tried_again(
    strict_gcs: StrictGCS, source: Source, waits: list[float], kind: Kind
) -> None:
    strict_gcs.inject("status", kind, status=400, text="Your client has issued a malformed or illegal request.")
    entry = next(iter(source.list(b"cat/")))
    assert source.read(entry.key, entry.stat) == b"0" * 1000
    assert len(waits) == 1


# Reading


@pytest.mark.parametrize("effect", ["status", "drop", "short", "corrupt", "lost_answer"])
def test_a_read_that_fails_once_gives_the_same_bytes(
    strict_gcs: StrictGCS, source: Source, image: Listed, waits: list[float], effect: Effect
) -> None:
    strict_gcs.inject(effect, "get")
    assert source.read(image.key, image.stat) == b"0" * 1000
    assert (strict_gcs.counts(), len(waits)) == ({"get": 2}, 1)


@pytest.mark.parametrize("effect", ["drop", "status"])
def test_a_read_that_always_fails_is_a_storage_error_and_not_the_image_s_fault(
    strict_gcs: StrictGCS, source: Source, image: Listed, waits: list[float], effect: Effect
) -> None:
    strict_gcs.inject(effect, "get", times=None)
    with pytest.raises(StorageError, match=r"cannot get gs://bucket/in/cat/00\.jpg: .*10 times"):
        source.read(image.key, image.stat)
    assert strict_gcs.counts() == {"get": 10}


def test_an_object_overwritten_between_two_attempts_is_changed(
    strict_gcs: StrictGCS, source: Source, image: Listed, waits: list[float]
) -> None:
    strict_gcs.inject("drop", "get")
    strict_gcs.inject("call", "get", action=lambda: strict_gcs.objects.put("bucket", "in/cat/00.jpg", b"new"))
    with pytest.raises(ChangedError):
        source.read(image.key, image.stat)


# Writing

BIG = bytes(range(256)) * 4096 * 9  # 9 MiB: above 8 MiB Google's client uploads in a session of two requests


@pytest.mark.parametrize("data", [b"small", BIG], ids=["multipart", "resumable"])
@pytest.mark.parametrize("effect", ["status", "lost_answer"])
def test_an_upload_that_fails_on_the_way_is_published_once(
    strict_gcs: StrictGCS, store: WritableStore, waits: list[float], data: bytes, effect: Effect
) -> None:
    strict_gcs.inject(effect, matches=lambda request: request.kind == ("resume" if data is BIG else "upload"))
    store.publish("train-0", data)
    made = strict_gcs.objects.buckets["bucket"]["out/train-0"]
    assert made.data == data
    assert len(waits) == 1


def test_an_upload_whose_bytes_change_on_the_way_is_sent_again(
    strict_gcs: StrictGCS, store: WritableStore, waits: list[float]
) -> None:
    strict_gcs.inject("status", "upload", status=400, text='Provided CRC32C "a" doesn\'t match calculated CRC32C "b".')
    assert store.create("train-0", b"ours")
    assert (strict_gcs.objects.buckets["bucket"]["out/train-0"].data, len(waits)) == (b"ours", 1)


def test_a_lost_answer_does_not_hide_that_another_writer_won(
    strict_gcs: StrictGCS, store: WritableStore, waits: list[float]
) -> None:
    strict_gcs.inject("status", "upload")
    strict_gcs.inject("call", "upload", action=lambda: strict_gcs.objects.put("bucket", "out/train-0", b"theirs"))
    with pytest.raises(ConflictError):
        store.publish("train-0", b"ours")
    assert strict_gcs.objects.buckets["bucket"]["out/train-0"].data == b"theirs"


def test_a_second_writer_of_a_big_file_changes_nothing(strict_gcs: StrictGCS, store: WritableStore) -> None:
    assert [store.create("train-0", BIG), store.create("train-0", BIG[1:])] == [True, False]
    assert strict_gcs.objects.buckets["bucket"]["out/train-0"].data == BIG


def test_of_two_sessions_that_upload_at_the_same_time_the_first_to_end_wins(
    strict_gcs: StrictGCS, store: WritableStore
) -> None:
    strict_gcs.inject("call", "resume", action=lambda: strict_gcs.objects.put("bucket", "out/train-0", b"theirs"))
    assert not store.create("train-0", BIG)
    assert strict_gcs.objects.buckets["bucket"]["out/train-0"].data == b"theirs"


def test_a_broken_upload_leaves_no_object(strict_gcs: StrictGCS, store: WritableStore, waits: list[float]) -> None:
    strict_gcs.inject("status", "resume", times=None)
    with pytest.raises(StorageError, match=r"cannot create gs://bucket/out/train-0: .*10 times"):
        store.create("train-0", BIG)
    assert strict_gcs.objects.buckets["bucket"] == {}


@pytest.mark.parametrize("effect", ["status", "lost_answer"])
def test_a_compose_that_fails_on_the_way_is_done_once(
    strict_gcs: StrictGCS, store: WritableStore, waits: list[float], effect: Effect
) -> None:
    parts = [f"_parts/f/{n:03d}" for n in range(40)]
    for n, part in enumerate(parts):
        strict_gcs.objects.put("bucket", f"out/{part}", b"%d," % n)
    strict_gcs.inject(effect, "compose")
    strict_gcs.inject(effect, "compose", "out/whole")
    created = store.compose("whole", parts, scratch="_parts/f/scratch")
    assert created is (effect == "status")  # a lost answer comes back as "exists": callers compare
    assert strict_gcs.objects.buckets["bucket"]["out/whole"].data == b"".join(b"%d," % n for n in range(40))
    assert sorted(strict_gcs.objects.buckets["bucket"]) == sorted(f"out/{name}" for name in [*parts, "whole"])


def test_composing_over_an_existing_name_changes_nothing(strict_gcs: StrictGCS, store: WritableStore) -> None:
    strict_gcs.objects.put("bucket", "out/whole", b"theirs")
    strict_gcs.objects.put("bucket", "out/a", b"ours")
    assert not store.compose("whole", ["a"], scratch="_parts/f/scratch")
    assert strict_gcs.objects.buckets["bucket"]["out/whole"].data == b"theirs"


def test_more_than_a_thousand_parts_are_composed_in_a_tree(strict_gcs: StrictGCS, store: WritableStore) -> None:
    parts = [f"_parts/f/{n:04d}" for n in range(1030)]
    for n, part in enumerate(parts):
        strict_gcs.objects.put("bucket", f"out/{part}", b"%d," % n)
    assert store.compose("whole", parts, scratch="_parts/f/scratch")
    assert store.read("whole") == b"".join(b"%d," % n for n in range(1030))
    assert strict_gcs.counts() == {"compose": 33 + 2 + 1, "delete": 33 + 2, "get": 1}


def test_a_compose_of_a_missing_part_is_an_error_and_leaves_no_intermediates(
    strict_gcs: StrictGCS, store: WritableStore, waits: list[float]
) -> None:
    for n in range(39):
        strict_gcs.objects.put("bucket", f"out/{n:03d}", b"x")
    with pytest.raises(storage.NotFoundError, match="one of its 8 parts, out/032 to out/039, is not there"):
        store.compose("whole", [f"{n:03d}" for n in range(40)], scratch="_parts/f/scratch")
    assert sorted(strict_gcs.objects.buckets["bucket"]) == [f"out/{n:03d}" for n in range(39)]


def test_without_permission_to_delete_a_compose_still_succeeds(strict_gcs: StrictGCS, store: WritableStore) -> None:
    for n in range(40):
        strict_gcs.objects.put("bucket", f"out/{n:03d}", b"x")
    strict_gcs.inject("status", "delete", status=403, times=None)
    assert store.compose("whole", [f"{n:03d}" for n in range(40)], scratch="_parts/f/scratch")


@pytest.mark.parametrize("effect", ["status", "lost_answer"])
def test_a_delete_that_fails_on_the_way_is_done(
    strict_gcs: StrictGCS, store: WritableStore, waits: list[float], effect: Effect
) -> None:
    strict_gcs.objects.put("bucket", "out/part", b"x")
    strict_gcs.inject(effect, "delete")
    store.delete("part")
    assert strict_gcs.objects.buckets["bucket"] == {}


def test_a_corrupted_answer_to_a_plain_read_is_read_again(
    strict_gcs: StrictGCS, store: WritableStore, waits: list[float]
) -> None:
    store.create("manifest.json", b"content")
    strict_gcs.inject("corrupt", "get")
    assert store.read("manifest.json") == b"content"
    assert strict_gcs.counts()["get"] == 2


@pytest.mark.parametrize(
    ("kind", "status", "permission", "role", "ask"),
    [
        ("upload", 403, "create", "objectUser", lambda store: store.create("a", b"x")),
        ("compose", 403, "create", "objectUser", lambda store: store.compose("a", ["b"], scratch="_parts/s")),
        ("delete", 403, "delete", "objectUser", lambda store: store.delete("a")),
        ("get", 403, "get", "objectViewer", lambda store: store.read("a")),
        ("get", 401, "get", "objectViewer", lambda store: store.read_range("a", 0, 1)),
        ("stat", 403, "get", "objectViewer", lambda store: store.stat("a")),
        ("list", 403, "list", "objectViewer", lambda store: list(store.list("a"))),
    ],
    ids=["create", "compose", "delete", "read", "read a range", "stat", "list"],
)
def test_a_missing_permission_is_named_at_once_with_the_command_that_grants_it(
    strict_gcs: StrictGCS,
    store: WritableStore,
    waits: list[float],
    kind: Kind,
    status: int,
    permission: str,
    role: str,
    ask: Callable[[WritableStore], object],
) -> None:
    strict_gcs.inject("status", kind, status=status, times=None)
    with pytest.raises(UsageError) as raised:
        ask(store)
    assert str(raised.value).startswith(
        f"permission storage.objects.{permission} is missing on bucket bucket for gs://bucket/out/a ({status}: "
    )
    assert str(raised.value).endswith(
        f"Grant it: gcloud storage buckets add-iam-policy-binding gs://bucket --member=ACCOUNT --role=roles/storage.{role}"
    )
    assert (strict_gcs.counts(), waits) == ({kind: 1}, [])


def test_writing_to_a_bucket_that_does_not_exist_says_so(strict_gcs: StrictGCS) -> None:
    with pytest.raises(UsageError, match=r"bucket buckett does not exist .*gcloud storage buckets create gs://buckett"):
        stores.open_output("gs://buckett/out").create("_parts/CLAIM", b"x")


def test_the_folder_s_own_marker_is_no_file_of_the_output(strict_gcs: StrictGCS, store: WritableStore) -> None:
    strict_gcs.objects.put("bucket", "out/", b"")
    store.create("a", b"x")
    assert [name for name, _ in store.list()] == ["a"]


def test_deleting_a_version_spares_a_newer_one(strict_gcs: StrictGCS, store: WritableStore) -> None:
    torn = strict_gcs.objects.put("bucket", "out/part", b"torn")
    strict_gcs.objects.put("bucket", "out/part", b"healed")
    store.delete("part", torn.generation)
    assert store.read("part") == b"healed"
    stat = store.stat("part")
    assert stat is not None
    store.delete("part", stat.version)
    assert store.stat("part") is None
