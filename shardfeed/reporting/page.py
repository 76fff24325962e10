"""The page: what stands where, and the HTML, which jinja2 makes of it.

The page loads nothing and runs nothing. All texts of the dataset are escaped, isolated in their
direction, and shown with control characters made visible, because keys and class names may come
from anywhere. Equal datasets give equal pages: no clock is read.
"""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from shardfeed import __version__, storage
from shardfeed.dataset.info import DatasetInfo, info
from shardfeed.errors import DatasetError, UsageError, clip
from shardfeed.format import naming
from shardfeed.format.columns import as_flag
from shardfeed.format.manifest import ImageInfo
from shardfeed.reporting.duplicates import worst_groups
from shardfeed.reporting.lines import MOST_BYTES
from shardfeed.reporting.pictures import Picture, PictureBudget, draw_pictures
from shardfeed.reporting.rejects import rejects_by_reason
from shardfeed.reporting.spread import Bar, Spread
from shardfeed.reporting.tables import TableFacts, read_tables
from shardfeed.verification.dataset import require_intact
from shardfeed.words import human_bytes, largest_first

CLASS_ROWS = 2_000  # at most, of the largest classes; the rest is counted
_CELLS = 16_000  # of these rows together, about 100 bytes each; more than four splits leave fewer rows
_FIRST_ROWS = 30  # rows of classes before the rest is folded away
_FIRST_SHEETS = 12  # the same for contact sheets
_SHEETS = 100  # classes with a contact sheet, if the thumbnails' budget reaches
_PER_SHEET = (6, 24)  # thumbnails of a class: the fewer classes, the more
_ALL_SHEETS = 600  # thumbnails of all classes together, about what fits into the budget
_TEXT = 500  # characters of a key or a detail


@dataclass(frozen=True, slots=True)
class ClassRow:
    """A class: its number, its records by split, and their sum."""

    number: int
    name: str
    counts: tuple[int, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram with the words below it. ``ticks``: numbers at equal distances of the axis."""

    name: str
    bars: Sequence[tuple[Bar, str]]
    top: int
    ticks: Sequence[str]
    words: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """The first records of a class."""

    name: str
    total: int
    pictures: Sequence[Picture]


def report(directory: str, sources: Sequence[str] = ()) -> str:
    """The page on the dataset in ``directory``, as HTML of at most 5 MB.

    Args:
        directory: Folder or address of the dataset.
        sources: Folders or addresses of its input, from which rejected images are drawn.

    Raises:
        UsageError: jinja2 is not installed; a wrong address.
        DatasetError: no dataset, or a damaged file of it.
        StorageError: the store kept failing.
    """
    template = _template()
    dataset = info(directory)
    require_intact(dataset.url)
    manifest, budget, run = dataset.manifest, PictureBudget(), _run(dataset)
    classes = _class_rows(dataset)
    groups = worst_groups(dataset)
    keys = {member.key for group in groups for member in group.members}
    facts = read_tables(dataset, _wanted(classes), keys)
    places = [facts.found[member.key] for group in groups for member in group.members if member.key in facts.found]
    drawn = draw_pictures(dataset, places, budget)
    rejects = rejects_by_reason(dataset, sources, budget)
    sheets = _sheets(dataset, classes, facts, budget)
    pictures = [*drawn.values(), *(picture for sheet in sheets for picture in sheet.pictures)]
    page: str = template.render(
        dataset=dataset,
        manifest=manifest,
        title=_title(dataset.url),
        shape=_shape(manifest.image),
        splits=list(manifest.splits.items()),
        total_bytes=sum(split.bytes for split in manifest.splits.values()),
        classes=classes[: min(CLASS_ROWS, _CELLS // (len(manifest.splits) + 4))],
        first_rows=_FIRST_ROWS,
        first_sheets=_FIRST_SHEETS,
        number_of_classes=len(manifest.classes),
        largest=max((row.total for row in classes), default=0) or 1,
        empty={
            name: [row.name for row in classes if not row.counts[number]] for number, name in enumerate(manifest.splits)
        },
        histograms=_histograms(facts, manifest.image),
        facts=facts,
        sheets=sheets,
        channels=list(zip(_channels(manifest.image), manifest.image.mean, manifest.image.std, strict=True)),
        rejected=sum(manifest.rejected.values()),
        rejects=rejects,
        damaged=len({(picture.split, picture.key) for picture in pictures if not picture.thumbnail.data}),
        read_sources=bool(sources),
        skipped=largest_first(manifest.skipped),
        fixes=largest_first(manifest.fixes),
        duplicates=manifest.duplicates,
        groups=groups,
        groups_cut=any(file.file == naming.DUPLICATES and file.bytes > MOST_BYTES for file in manifest.files),
        pictures={key: drawn[place] for key, place in facts.found.items() if place in drawn},
        run=run,
        command=_command(dataset, run),
        config={name: json.dumps(value, ensure_ascii=False) for name, value in sorted(manifest.config.items())},
        shardfeed=__version__,
    )
    return page


def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise UsageError(
            "report: jinja2 is not installed here. Install it with: pip install 'shardfeed[report]'"
        ) from None
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "text": lambda value: clip(value, _TEXT),
        "number": lambda value: f"{value:,}",
        "bytes": human_bytes,
        "percent": _percent,
    }
    return environment.from_string(resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8"))


def _title(url: str) -> str:
    return posixpath.basename(url.rstrip("/")) or url


def _shape(image: ImageInfo) -> str:
    colours = "gray" if image.channels == 1 else "RGB"
    if not (image.height and image.width):
        return f"{colours} of varying size, {image.format}"
    order = " (height × width)" * (image.height != image.width)
    return f"{image.height:,} × {image.width:,}{order} {colours}, {image.format}"


def _channels(image: ImageInfo) -> tuple[str, ...]:
    return ("gray",) if image.channels == 1 else ("red", "green", "blue")


def _percent(part: float, whole: float) -> str:
    if not whole or not part:
        return "0 %"
    share = 100 * part / whole
    return "< 0.1 %" if share < 0.1 else f"{share:.1f} %"


def _class_rows(dataset: DatasetInfo) -> list[ClassRow]:
    """All classes, the largest first."""
    splits = list(dataset.manifest.splits.values())
    rows = []
    for number, name in enumerate(dataset.classes):
        counts = tuple(split.class_counts.get(name, 0) for split in splits)
        rows.append(ClassRow(number, name, counts, sum(counts)))
    return sorted(rows, key=lambda row: (-row.total, row.number))


def _wanted(classes: Sequence[ClassRow]) -> dict[int, int]:
    """How many records to draw, by class."""
    sheets = [row for row in classes[:_SHEETS] if row.total]
    if not sheets:  # records without classes: the sheet of all
        return {0: 2 * _PER_SHEET[1]}
    least, most = _PER_SHEET
    each = min(most, max(least, _ALL_SHEETS // len(sheets)))
    return {row.number: each for row in sheets}


def _sheets(dataset: DatasetInfo, classes: Sequence[ClassRow], facts: TableFacts, budget: PictureBudget) -> list[Sheet]:
    names = {row.number: (row.name, row.total) for row in classes} or {0: ("All records", dataset.manifest.written)}
    order = [number for number in names if number in facts.first]
    drawn = draw_pictures(dataset, (place for number in order for place in facts.first[number]), budget)
    sheets = []
    for number in order:
        pictures = [drawn[place] for place in facts.first[number] if place in drawn]
        if pictures:
            sheets.append(Sheet(*names[number], pictures))
    return sheets


def _histograms(facts: TableFacts, image: ImageInfo) -> list[Histogram]:
    """Sizes have a histogram only if they vary."""
    shown: list[tuple[str, str, Callable[[float], str]]] = []
    if not (image.height and image.width):
        shown += [("Width", "width", _pixels), ("Height", "height", _pixels), ("Width / height", "ratio", _ratio)]
    shown += [
        ("Bytes of a stored record", "bytes", human_bytes),
        ("Bytes of a source file", "source_bytes", human_bytes),
    ]
    return [
        _histogram(name, facts.spreads[column], words)
        for name, column, words in shown
        if column in facts.spreads and facts.spreads[column].count
    ]


def _histogram(name: str, spread: Spread, words: Callable[[float], str]) -> Histogram:
    bars = spread.bars()
    low, high = bars[0].low, bars[-1].high
    ticks = [words(low * (high / low) ** (number / 4)) for number in range(5)]
    said = (
        f"from {words(spread.lowest)} to {words(spread.highest)}, mean {words(spread.mean)}, "
        f"median about {words(spread.median)}"
    )
    named = [(bar, f"{words(bar.low)} to {words(bar.high)}: {bar.count:,}") for bar in bars]
    return Histogram(name, named, max(bar.count for bar in bars), ticks, said)


def _pixels(value: float) -> str:
    return f"{value:,.0f} px"


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def _run(dataset: DatasetInfo) -> Mapping[str, Any]:
    """``run.json``; empty if it is not there, for a rerun of the build makes it again."""
    store = storage.open_store(dataset.url)
    try:
        found = json.loads(store.read(naming.RUN))
    except storage.NotFoundError:
        return {}
    except storage.UnreadableError:  # which is a ValueError
        raise
    except ValueError as error:
        raise DatasetError(
            f"{clip(storage.join_url(dataset.url, naming.RUN))} is damaged: not JSON ({clip(error)}). Delete it, and rerun "
            "the build's command, which writes it again."
        ) from None
    return found if isinstance(found, dict) else {}


def _command(dataset: DatasetInfo, run: Mapping[str, Any]) -> list[str]:
    """The command that builds this dataset, a flag per line, from what the manifest says.

    The manifest does not name files of the user, nor flags that change no byte.
    """
    inputs = run.get("inputs")
    flags: list[tuple[str, ...]] = [
        ("input", str(root)) for root in (inputs if isinstance(inputs, list) else ["INPUT"])
    ]
    if run.get("list_root"):
        flags.append(("list_root", str(run["list_root"])))
    flags.append(("output", dataset.url))
    for name, value in sorted(dataset.manifest.config.items()):
        if name == "image_size" and isinstance(value, list) and None not in value:
            flags.append((name, "x".join(map(str, dict.fromkeys(value)))))  # 224, or 224x320
        elif name == "columns":
            flags.append((name, ",".join(map(as_flag, value))))
        elif name == "formats":
            flags.append((name, ",".join(map(str, value))))
        elif name == "num_shards" and isinstance(value, dict):
            flags.append((name, ",".join(f"{split}={number}" for split, number in value.items())))
        elif name in ("class_list", "class_map") and value:
            flags.append((name, "FILE"))
        elif value is True and name != "multi_label":  # that follows from the table
            flags.append((name,))
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            flags.append((name, str(value)))
    config = dataset.manifest.config
    from_table = config.get("label_from") == "table"
    named = any(str(config.get(name, "")).startswith("column:") for name in ("splits", "group_by"))
    if from_table or named or config.get("columns"):
        flags.append(("metadata", "TABLE"))
    if from_table:
        flags.append(("label_column", "NAME"))
    return ["shardfeed build", *(f"--{shlex.join(flag)}" for flag in flags)]
