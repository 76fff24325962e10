"""What stands on the page: numbers, pictures, rejects and near-duplicates, for datasets of every kind."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import shardfeed
from shardfeed import testing
from shardfeed.errors import DatasetError
from shardfeed.format import naming
from shardfeed.format.record_table import schema
from shardfeed.reporting import page, pictures, tables
from shardfeed.reporting.page import CLASS_ROWS, report
from shardfeed.reporting.rejects import REJECTS_SHOWN
from tests.golden import test_golden_dataset as golden
from tests.kit.datasets import write_dataset
from tests.kit.servers.strict_gcs import StrictGCS
from tests.reporting.findings import add_duplicates, add_rejects, edge


def section(source: str, name: str) -> str:
    """The source of a section."""
    return source.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def words(source: str) -> str:
    """What a reader sees, with one space between words."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", source)).split())


def rows(source: str) -> list[list[str]]:
    """The cells of the rows of all tables."""
    found = re.findall(r"<tr>(.*?)</tr>", source, re.DOTALL)
    return [[words(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in found]


def images(source: str) -> list[str]:
    """The alternative texts of the pictures, in order; they all decode."""
    found = re.findall(r'<img src="data:image/webp;base64,([^"]+)" [^>]*alt="([^"]*)"', source)
    return [html.unescape(alt) for _, alt in found]


def keys(out: Path, split: str, label: int | None = None) -> list[str]:
    """Keys of the first records of a split, or of one of its classes."""
    return [each["key"] for each in shardfeed.records(str(out), split) if label in (None, each["label"])]


def test_classes_and_splits_are_counted_exactly(tmp_path: Path) -> None:
    out = write_dataset(tmp_path / "out")
    counts = [split.class_counts for split in out.manifest.splits.values()]
    expected = [
        [f"{name} {number}", str(counts[0][name]), str(counts[1][name]), str(counts[0][name] + counts[1][name])]
        for number, name in enumerate(out.manifest.classes)
    ]
    found = rows(section(report(str(out.path)), "classes"))

    assert [row[:2] for row in found[:3]] == [["Split", "Records"], ["train", "37"], ["validation", "10"]]
    assert found[3] == ["Class", "train", "validation", "All", "Share"]
    assert [row[:-1] for row in found[4:]] == sorted(expected, key=lambda row: -int(row[-1]))


@pytest.mark.parametrize(
    ("image_format", "size", "channels"),
    [
        ("raw", (8, 12), 1),
        ("raw", None, 3),
        ("jpeg", (400, 300), 3),
        ("png", (8, 12), 1),
    ],
)
def test_the_first_records_of_the_largest_split_are_drawn_by_class(
    tmp_path: Path, image_format: str, size: tuple[int, int] | None, channels: int
) -> None:
    out = write_dataset(
        tmp_path / "out", splits={"a": 3, "b": 90}, image_format=image_format, size=size, channels=channels
    )
    made = report(str(out.path))
    sheets = re.findall(r"<details.*?</details>", section(made, "sheets"), re.DOTALL)

    assert len(sheets) == 3
    for sheet in sheets:
        name = words(sheet.partition("</summary>")[0]).split()[-4]
        label = out.manifest.classes.index(name)
        assert images(sheet) == [*keys(out.path, "b", label), *keys(out.path, "a", label)][:24]
    assert ("Width / height" in words(section(made, "sizes"))) == (size is None)


def test_texts_of_a_dataset_are_text_and_control_characters_are_seen(tmp_path: Path) -> None:
    names = ("<script>alert(1)</script>", '"><img src=x>', "=1+1", "a\u202eb\x1b[0m", "فستان")
    out = write_dataset(tmp_path / "<i>", classes=names, splits={"train": 10}).path
    add_rejects(out, [("<i>\x07", "FORMAT", "<u>")])
    made = report(str(out))

    seen = {row[0].rpartition(" ")[0] for row in rows(section(made, "classes"))[3:]}
    assert seen == {*names[:3], r"a\u202eb\x1b[0m", names[4]}
    assert not re.search(r"<script|<img src=x|<[iu]>|\x07|\x1b|\u202e", made)
    assert "default-src 'none'" in made and not re.search(r'(?:src|href)="(?!data:image/|#)', made)


def test_equal_datasets_have_equal_pages(tmp_path: Path) -> None:
    pages = []
    for name in ("one", "two"):
        write_dataset(tmp_path / name / "out", splits={"train": 5})
        pages.append(report(str(tmp_path / name / "out")).replace(str(tmp_path / name), ""))

    assert pages[0] == pages[1]


def test_rejects_are_counted_by_reason_and_the_first_are_drawn_from_their_source(tmp_path: Path) -> None:
    out, source = write_dataset(tmp_path / "out").path, tmp_path / "photos"
    picture = io.BytesIO()
    Image.effect_noise((300, 200), 90).save(picture, "JPEG")
    whole = picture.getvalue()
    (source / "a").mkdir(parents=True)
    contents = {"cut.jpg": whole[: len(whole) // 2], "text.jpg": b"<html>", "spins.jpg": whole}
    for name, data in contents.items():
        (source / "a" / name).write_bytes(data)
    for name in ("wide.png", "wide.avif"):
        Image.new("RGB", (3000, 20)).save(source / "a" / name)
    (tmp_path / "secret.jpg").write_bytes(whole)
    many = [(f"b/{number}.jpg", "EMPTY", "has zero bytes") for number in range(20)]
    one = [
        ("a/cut.jpg", "TRUNCATED", "ends early"),
        ("a/text.jpg", "FORMAT", "is a text"),
        ("a/wide.png", "ASPECT", "150 : 1"),
        ("a/wide.avif", "ASPECT", "150 : 1"),
    ]
    add_rejects(out, [*many, *one, ("a/spins.jpg", "TIMEOUT", "60 s"), ("../secret.jpg", "PIXELS", "too many")])

    found = section(report(str(out), [str(tmp_path / "out"), str(source)]), "rejects")
    reasons = [words(each) for each in re.findall(r"<summary>(.*?)</summary>", found)]

    assert reasons == ["EMPTY 20", "ASPECT 2", "FORMAT 1", "PIXELS 1", "TIMEOUT 1", "TRUNCATED 1"]
    assert images(found) == [
        "a/wide.png",
        "a/wide.avif",
        "a/cut.jpg",
    ]  # not what hung a codec, nor a file outside of the source
    assert re.findall(r'aria-label="([^"]*)"', found) == [
        *(f"b/{number}.jpg: no picture" for number in range(REJECTS_SHOWN)),
        "a/text.jpg: cannot be drawn", "../secret.jpg: no picture", "a/spins.jpg: no picture",
    ]  # fmt: skip
    assert "<img" not in section(report(str(out)), "rejects")


def test_a_key_that_no_file_can_have_has_no_picture(tmp_path: Path) -> None:
    out = write_dataset(tmp_path / "out").path
    add_rejects(out, [("a/SURROGATE.jpg", "EMPTY", "has zero bytes")])
    path = out / naming.rejects_name(0, 1)
    path.write_bytes(path.read_bytes().replace(b"SURROGATE", rb"\ud800000"))

    found = section(report(str(out), [str(tmp_path)]), "rejects")

    assert re.findall(r'aria-label="([^"]*)"', found) == [r"a/\ud800000.jpg: no picture"]


def test_a_source_of_too_many_pixels_is_not_decoded() -> None:
    bomb = io.BytesIO()
    Image.new("1", (1 << 14, 1 << 13)).save(bomb, "PNG")  # 128 Mi pixels in 16 kB

    assert pictures.source_thumbnail(bomb.getvalue()) == pictures.Thumbnail()


def test_near_duplicates_with_two_labels_come_first_then_those_in_two_splits(tmp_path: Path) -> None:
    out = write_dataset(tmp_path / "out").path
    train, other = keys(out, "train"), keys(out, "validation")
    add_duplicates(
        out,
        [
            edge(1, 2, (train[0], "rose", "train"), (train[1], "rose", "train"), exact=True),
            edge(2, 2, (train[2], "rose", "train"), (other[0], "rose", "validation")),
            *(edge(3, 200, (train[3], "rose", "train"), (train[4 + number], "rose", "train")) for number in range(8)),
            edge(4, 2, (train[5], ["rose", "red"], "train"), (train[6], None, "train")),
            edge(4, 3, (train[5], ["rose", "red"], "train"), ("gone.jpg", "tulip", "train")),
            {"group": 5, "keys": ["a.jpg", "b.jpg"]},
        ],
        groups=7, pairs=12, exact=1, labels=1, splits=1, flat=1, crowded=1_510,
    )  # fmt: skip
    made = report(str(out))
    groups = section(made, "duplicates").partition('<ul class="groups">')[2].split("</ul>\n</li>")[:-1]

    assert [words(group.partition("</p>")[0]) for group in groups] == [
        "3 labels distance 3", "2 splits distance 3", "distance 3 6 of 200 images", "exact copies", "distance 0",
    ]  # fmt: skip
    drawn = [[train[5], train[6]], [train[2], other[0]], [train[3], *train[4:9]], train[:2], []]
    assert [images(group) for group in groups] == drawn
    assert re.findall(r"<b><bdi>(.*?)</bdi></b>", groups[0]) == ["rose, red", "no label", "tulip"]
    assert words(section(made, "findings")).startswith(
        'aria-labelledby="findings-title"> Findings 1 group of near-duplicates has more than one label. 1 group of '
        "near-duplicates lies in more than one split."
    )
    assert (
        "1 image of almost no contrast or structure was compared by its bytes only. 1,510 images among too many "
        "near ones were not compared with all of them. The worst 5 are shown."
    ) in words(section(made, "duplicates"))


def test_thumbnails_share_a_budget_and_near_duplicates_are_served_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = write_dataset(tmp_path / "out", splits={"train": 90}, size=(160, 160)).path
    pair = keys(out, "train")[80:82]
    add_duplicates(out, [edge(0, 2, *((key, "rose", "train") for key in pair))], groups=1, pairs=1)
    monkeypatch.setattr(pictures.PictureBudget.__init__, "__defaults__", (3_000,))
    made = report(str(out))

    assert images(section(made, "duplicates")) == pair
    drawn = images(section(made, "sheets"))
    assert 0 < len(drawn) < 20
    assert sum(map(len, re.findall(r'src="(data:[^"]*)"', made))) <= 3_000
    assert drawn == keys(out, "train", np.argmax(counts(out)).item())[: len(drawn)]  # the largest class first


def counts(out: Path) -> list[int]:
    info = shardfeed.info(str(out))
    return [info.splits["train"].class_counts[name] for name in info.classes]


@pytest.mark.parametrize(("splits", "shown"), [(1, CLASS_ROWS), (12, 1_000)])
def test_of_very_many_classes_the_largest_have_a_row(tmp_path: Path, splits: int, shown: int) -> None:
    number = shown + 7
    names = [f"c{each}" for each in range(number)]
    counts = {"train": number + 1, **{f"fold_{each}": 1 for each in range(splits - 1)}}
    out = write_dataset(tmp_path / "out", splits=counts, classes=names, size=(1, 1), image_format="raw").path
    made = report(str(out))
    found = [row[0] for row in rows(section(made, "classes")) if re.match(r"c\d+ ", row[0])]

    assert len(found) == shown
    assert f"{number - shown:,} classes with at most 1 records each are not listed." in words(section(made, "classes"))
    assert "the 100 largest classes" in words(section(made, "sheets"))
    assert len(made) < 2_000_000  # without thumbnails that fill their 3 MB


def test_a_class_without_a_record_is_a_finding(tmp_path: Path) -> None:
    out = write_dataset(tmp_path / "out", splits={"train": 3, "test": 2}).path

    assert "1 class has no record in the split test : tulip" in words(section(report(str(out)), "findings"))


def test_of_too_many_records_some_tables_are_read_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = write_dataset(tmp_path / "out", splits={"train": 40}, shards=4).path
    monkeypatch.setattr(tables, "_MOST_ROWS", 25)

    assert "Measured on 20 of 40 records, those of 2 shards." in words(section(report(str(out)), "sizes"))


def test_a_dataset_of_version_1_has_numbers_only() -> None:
    made = report(str(Path(golden.__file__).with_name("v1")))

    assert "<img" not in made and 'id="sizes"' not in made
    assert len(rows(section(made, "classes"))) > 4


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda table: table.unlink(), "{table}: file: expected 12 rows, found no file. "),
        (lambda table: table.write_bytes(table.read_bytes()[:-9]), "{table} is damaged: it is no record table: "),
        (lambda table: pq.write_table(pa.table({"a": [1]}), table), "{table} is damaged: it is no record table: "),
    ],
    ids=["gone", "cut", "other columns"],
)
def test_a_damaged_table_is_an_error_that_names_it(tmp_path: Path, harm: Callable[[Path], object], said: str) -> None:
    out = write_dataset(tmp_path / "out").path
    table = "train-00001-of-00003.parquet"
    harm(out / table)

    with pytest.raises(DatasetError, match=said.format(table=table)):
        report(str(out))


@pytest.mark.parametrize("line", ["{", "[]"])
def test_a_damaged_line_is_an_error_that_names_it(tmp_path: Path, line: str) -> None:
    out = write_dataset(tmp_path / "out").path
    add_rejects(out, [("a", "FORMAT", ""), ("b", "FORMAT", "")])
    path = out / "rejects-00000-of-00001.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{line.ljust(len(second))}\n")  # of the manifest's size

    with pytest.raises(DatasetError, match=r"rejects-00000-of-00001\.jsonl is damaged: line 2 is n"):
        report(str(out))


def test_a_damaged_record_is_a_cell_that_says_so(tmp_path: Path) -> None:
    out = write_dataset(tmp_path / "out", splits={"train": 9}, shards=1).path
    shard = out / "train-00000-of-00001.tfrecord"
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    made = report(str(out))

    assert "train-00000-of-00001.tfrecord at byte 0, damaged: cannot be drawn" in made
    assert "not decode: the dataset is damaged" in section(made, "findings")
    assert len(images(made)) == 8


def test_of_a_dataset_in_a_bucket_is_read_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_dataset(tmp_path / "out", splits={"train": 300}, shards=2).path
    with StrictGCS() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        for file in written.iterdir():
            server.objects.put("bucket", f"out/{file.name}", file.read_bytes())
        made = report("gs://bucket/out")
        requests = [request.kind for request in server.log]

    assert made.replace("gs://bucket/out", "OUT") == report(str(written)).replace(str(written), "OUT")
    assert len(images(section(made, "sheets"))) == 72 and "damaged" not in made
    # The manifest, run.json, two tables, each picture; and what a fast verification reads.
    assert sorted(requests) == ["get"] * (5 + 72) + ["list", "stat", "stat"]


def test_a_record_may_have_several_classes_or_none() -> None:
    several = pa.array([[2, 0], [], None, [1]], pa.list_(pa.int32()))
    classes, places = tables._classes(several, ("a", "b", "c"))
    assert (classes.tolist(), places.tolist()) == ([2, 0, 1], [0, 0, 3])

    for column in (pa.nulls(3, schema().field("class").type), pa.array([-1, -1, -1], pa.int32())):
        none, places = tables._classes(column, ())
        assert (none.tolist(), places.tolist()) == ([0, 0, 0], [0, 1, 2])


def test_records_of_several_labels_are_drawn_under_each_of_them(tmp_path: Path) -> None:
    out = testing.make_dataset(tmp_path / "out", splits={"train": 8}, classes=("a", "b"), label_kind="multi")
    found = page.report(out.url)

    records = shardfeed.records(out, "train")
    expected = [each["key"] for number in range(2) for each in records if each["label"][number]]
    assert images(section(found, "sheets")) == expected and len(expected) == 8


def test_the_command_has_only_flags_that_there_are(tmp_path: Path) -> None:
    dataset = shardfeed.info(write_dataset(tmp_path / "out", splits={"train": 5}).path)
    column = {"name": "age", "type": "int64", "shape": [], "default": -1}
    config = {"label_from": "table", "multi_label": True, "columns": [column], "seed": 0, "class_list": None}
    config |= {"class_map": {"a": "b"}, "formats": ["jpeg", "tiff"], "num_shards": {"test": 1, "train": 4}}
    run = {"inputs": ["p"], "list_root": "photos/"}
    found = page._command(replace(dataset, manifest=replace(dataset.manifest, config=config)), run)

    assert found == [
        "shardfeed build",
        "--input p",
        "--list_root photos/",
        f"--output {dataset.url}",
        "--class_map FILE",
        "--columns age:int64=-1",
        "--formats jpeg,tiff",
        "--label_from table",
        "--num_shards test=1,train=4",
        "--seed 0",
        "--metadata TABLE",
        "--label_column NAME",
    ]


def test_records_without_classes_have_one_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = shardfeed.info(write_dataset(tmp_path / "out", splits={"train": 5}).path)
    splits = {name: replace(split, class_counts={}) for name, split in dataset.manifest.splits.items()}
    manifest = replace(dataset.manifest, classes=(), label_kind="none", splits=splits)
    monkeypatch.setattr(page, "info", lambda _: replace(dataset, manifest=manifest))
    found = page.report(dataset.url)

    assert "The records have no classes." in words(section(found, "classes"))
    assert images(section(found, "sheets")) == keys(tmp_path / "out", "train")
