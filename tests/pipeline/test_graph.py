"""The graph: its steps, what travels between them, by which coder, and what is shuffled."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.testing.util import assert_that, equal_to

from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.graph import build
from shardfeed.storage import Stat
from shardfeed.transforms.elements import Element, ImageRef, Plan, RefBatch, SplitPlan, pack_ref, unpack_refs
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.publish.manifest_commit import RunRecord
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps import coders
from shardfeed.transforms.steps.assign_parts import AssignParts

Proto = beam_runner_api_pb2.Pipeline

STEPS = [
    "ListImages", "LabelImages", "CountImages", "ClaimOutput", "AssignParts", "EncodeParts", "Reconcile", "WriteRejects",
    "Proceed", "FindDuplicates", "PackShards", "ComposeShards", "Commit", "Sweep",
]  # fmt: skip
PRIMITIVES = {
    "BytesCoder", "StrUtf8Coder", "VarIntCoder", "TupleCoder", "IterableCoder", "ListCoder", "GlobalWindowCoder",
}  # fmt: skip
OURS = {element.__name__ for element in coders.ELEMENTS}

# Where Beam itself puts a coder of its own choice; everything else is ours.
BEAMS = {
    # CombineGlobally keys everything with None ...
    **{
        f"{step}/AddUp/{inner}": {"DeterministicFastPrimitivesCoderV2"}
        for step in ("CountImages", "Reconcile")
        for inner in ("KeyWithVoid", "CombinePerKey/GroupByKey", "CombinePerKey/Combine/ParDo(CombineValuesDoFn)")
    },
    # ... and Reshuffle puts each element's timestamp (None in a batch) and pane beside it.
    **{
        f"{step}/ReshufflePerKey/{inner}": {"NullableCoder", "FastPrimitivesCoder", "PaneInfoCoder"}
        for step in (
            "ListImages/SpreadFolders",
            "WriteRejects/SpreadFiles",
            "PackShards/SpreadShards",
            "Sweep/SpreadLeftovers",
        )
        for inner in ("Map(reify_metadata_default_window)", "GroupByKey")
    },
}


def _proto(inputs: tuple[str, ...] = ("/in",), **options: object) -> Proto:
    config = BuildConfig(inputs=inputs, output="/out", **options)  # type: ignore[arg-type]
    pipeline = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([], save_main_session=False))
    build(pipeline, config, RunRecord("run", "now", inputs, "DirectRunner"), Run("run", config.output))
    return pipeline.to_runner_api()


@pytest.fixture(scope="module")
def proto() -> Proto:
    return _proto()


def _names_in(coder: beam.coders.Coder) -> Iterator[str]:
    yield coder.element.__name__ if isinstance(coder, coders.ElementCoder) else type(coder).__name__
    for each in coder._get_component_coders():
        yield from _names_in(each)


def _coders_by_step(proto: Proto) -> dict[str, set[str]]:
    """Names of the classes of coders on each primitive step's output."""
    components = proto.components
    by_id = PipelineContext(components).coders
    found: dict[str, set[str]] = {}
    for transform in components.transforms.values():
        if not transform.subtransforms:
            for output in transform.outputs.values():
                coder = by_id.get_by_id(components.pcollections[output].coder_id)
                found.setdefault(transform.unique_name, set()).update(_names_in(coder))
    return found


def test_the_steps_are_these_in_this_order(proto: Proto) -> None:
    (root,) = proto.root_transform_ids
    transforms = proto.components.transforms
    assert [transforms[step].unique_name for step in transforms[root].subtransforms] == STEPS


def test_our_steps_have_unique_labels_that_are_camel_case_words(proto: Proto) -> None:
    labels = [transform.unique_name for transform in proto.components.transforms.values() if transform.unique_name]
    ours = [label for label in labels if label.count("/") <= 1 and not label.startswith("ref_")]  # but not the root

    assert len(set(labels)) == len(labels)
    assert [label for label in ours if not re.fullmatch(r"([A-Z][a-z]+)+(/([A-Z][a-z]+)+)?", label)] == []


def test_every_arrow_has_a_coder_of_ours_or_of_primitives(proto: Proto) -> None:
    foreign = {step: names - OURS - PRIMITIVES for step, names in _coders_by_step(proto).items()}

    assert {step: names for step, names in foreign.items() if names} == BEAMS


def test_every_element_has_a_coder_and_every_coder_is_used(proto: Proto) -> None:
    stratified = _proto(options=BuildOptions(splits="train=0.9,test=0.1", stratify=True))
    used = set().union(*_coders_by_step(proto).values(), *_coders_by_step(stratified).values())

    elements: list[type] = [RefBatch, *Element.__subclasses__()]
    assert {element.__name__ for element in elements} - OURS == {
        "SplitTotals",  # inside Totals
        "SplitPlan",  # inside Plan
        "Outcome",  # in a file of its own
    }
    assert OURS - used == set()


def test_accumulators_of_sums_travel_by_our_coders_too(proto: Proto) -> None:
    by_id = PipelineContext(proto.components).coders
    found = {}
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:combine_per_key:v1":
            payload = beam_runner_api_pb2.CombinePayload.FromString(transform.spec.payload)
            found[transform.unique_name] = set(_names_in(by_id.get_by_id(payload.accumulator_coder_id)))

    assert found == {
        "CountImages/AddUp/CombinePerKey": {"ListCoder", "Totals"},
        "Reconcile/AddUp/CombinePerKey": {"ListCoder", "Counts"},
    }


def test_only_references_and_small_results_are_grouped(proto: Proto) -> None:
    by_step = _coders_by_step(proto)
    grouped = {
        transform.unique_name: by_step[transform.unique_name] & (OURS | {"BytesCoder"})
        for transform in proto.components.transforms.values()
        if transform.spec.urn == "beam:transform:group_by_key:v1"
    }

    assert grouped == {
        "ListImages/SpreadFolders/ReshufflePerKey/GroupByKey": {"BytesCoder"},  # names of folders
        "CountImages/AddUp/CombinePerKey/GroupByKey": {"Totals"},
        "AssignParts/GroupByPart": {"BytesCoder"},  # packed references, measured below
        "Reconcile/AddUp/CombinePerKey/GroupByKey": {"Counts"},
        "WriteRejects/SpreadFiles/ReshufflePerKey/GroupByKey": {"RejectsPlan"},
        "PackShards/GroupBySplit": {"PartFile"},
        "PackShards/SpreadShards/ReshufflePerKey/GroupByKey": {"ShardPlan"},
        "Sweep/SpreadLeftovers/ReshufflePerKey/GroupByKey": set(),  # names of files
    }


def test_the_graph_is_small_and_does_not_grow_with_the_input(proto: Proto) -> None:
    roots = tuple(f"gs://bucket{i}/photos/of/last/year" for i in range(50))
    larger = _proto(roots)

    assert sorted(t.unique_name for t in larger.components.transforms.values()) == sorted(
        t.unique_name for t in proto.components.transforms.values()
    )
    assert len(proto.SerializeToString()) < 200_000  # Dataflow refuses jobs above 10 MB
    assert len(larger.SerializeToString()) - len(proto.SerializeToString()) < 50 * 400


def _realistic_refs(count: int) -> list[ImageRef]:
    rng = random.Random(0)
    return [
        ImageRef(
            0,
            f"n{rng.randrange(10**8):08}/photos/{rng.randbytes(16).hex()}.jpg".encode(),
            Stat(rng.randrange(10**5, 10**7), 1_700_000_000_000_000_000 + i, rng.randrange(2**32)),
        )
        for i in range(count)
    ]


def test_at_most_200_bytes_an_image_cross_the_shuffle() -> None:
    """As among 100 million images, where the images of a folder go to a part each."""
    refs = _realistic_refs(500)
    batches = [RefBatch("train", pack_ref(ref)) for ref in refs]
    plan = Plan("f", ("cat",), {}, len(refs), {"train": SplitPlan(256, 16, len(refs))})
    crossing = beam.coders.registry.get_coder(beam.typehints.KV[tuple[str, int], bytes])

    def measure(grouped: tuple[tuple[str, int], list[bytes]]) -> tuple[int, int]:
        key, pieces = grouped
        images = sum(1 for piece in pieces for _ in unpack_refs(piece))
        return sum(len(crossing.encode((key, piece))) for piece in pieces), images

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plans = pipeline | "Plan" >> beam.Create([plan])
        totals = (
            pipeline
            | "Batches" >> beam.Create(batches)
            | AssignParts(plan=plans, seed=0)
            | "Measure" >> beam.Map(measure)
            | "Sum" >> beam.CombineGlobally(lambda pairs: tuple(map(sum, zip((0, 0), *pairs, strict=True))))
            | "Judge" >> beam.Map(lambda total: (total[0] <= 200 * total[1], total[1]))
        )
        assert_that(totals, equal_to([(True, len(refs))]))


def test_a_coder_gives_back_what_it_was_given() -> None:
    batch = RefBatch("train", b"\x00\xff", {"hidden": 1})
    coder = beam.coders.registry.get_coder(RefBatch)

    assert coder.decode(coder.encode(batch)) == batch
    assert coder.is_deterministic()
    assert coder == coders.ElementCoder(RefBatch) != coders.ElementCoder(Plan)
