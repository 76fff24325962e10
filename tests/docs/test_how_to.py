"""Every Python block of docs/how-to and README's program run, and their models learn pictures that
models this small can tell apart.

Blocks of one process share their names, over the pages in the order of the site.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

from shardfeed.cli.main import main
from tests.docs.pages import PAGES, ROOT, blocks, run_python, run_shell
from tests.kit.builds import run_program
from tests.kit.datasets import write_dataset
from tests.kit.environments import python_with
from tests.kit.images import photo, write
from tests.kit.metadata import write_table
from tests.kit.servers.strict_gcs import StrictGCS

EXAMPLES = re.findall(
    r"^(?:\w+=\w+ )?python (examples/.*)$", (ROOT / "docs/how-to/examples.md").read_text(), re.MULTILINE
)


def pages() -> list[str]:
    """The how-to pages, as mkdocs.yml orders them."""
    return re.findall(r"(how-to/\S+\.md)", (ROOT / "mkdocs.yml").read_text())


def blocks_by_process() -> dict[str, list[str]]:
    """A comment names the process of the blocks after it, to the end of its page.

    Without one it is "tensorflow".
    """
    out: dict[str, list[str]] = {}
    for page in pages():
        process = "tensorflow"
        for name, code in re.findall(
            r"<!-- process: (\S+) -->|```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL
        ):
            process = name or process
            out.setdefault(process, []).extend([code] if code else [])
    return out


def code_of(*processes: str) -> str:
    return "".join(code for process in processes for code in blocks_by_process()[process])


def test_no_block_is_left_out() -> None:
    found, by_process = sorted((ROOT / "docs/how-to").glob("*.md")), blocks_by_process()

    assert sorted(pages()) == [f"how-to/{page.name}" for page in found]
    assert set(by_process) == {"tensorflow", "keras-jax", "arrays", "gcs", "torch", "grain", "jax", "table"}
    assert sum(map(len, by_process.values())) == sum(len(blocks(page, "python")) for page in found)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dataset ``out``: 900 of scikit-learn's digits, drawn and built."""
    folder, digits = tmp_path_factory.mktemp("digits"), load_digits()
    for number, (pixels, digit) in enumerate(zip(digits.images[:900], digits.target[:900], strict=True)):
        path = folder / "photos" / str(digit) / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 255 / 16).astype(np.uint8)).resize((16, 16), Image.Resampling.BICUBIC).save(path)
    flags = ["--image_size", "16", "--splits", "train=0.9,validation=0.1"]
    assert main(["build", "--input", str(folder / "photos"), "--output", str(folder / "out"), *flags]) == 0
    return folder


EVALUATE = """
found = model.evaluate(shardfeed.load(info, "validation", 32), verbose=0, return_dict=True)
print("accuracy", found["accuracy"])
"""


@pytest.mark.parametrize("process", ["tensorflow", "keras-jax"])
def test_the_blocks_about_keras_run_and_their_models_learn_digits(digits: Path, process: str) -> None:
    first, *others = blocks_by_process()[process]
    programs = ["".join([re.sub(r"epochs=\d", "epochs=10", first), EVALUATE, *others])]
    if process == "tensorflow":
        programs.insert(0, blocks("README.md", "python")[0].replace("128", "32") + EVALUATE)
    program = digits / f"{process}.py"
    program.write_text("".join(f"import keras\nkeras.utils.set_random_seed(1)\n{code}" for code in programs))

    done = run_program(program, backend=process.rpartition("-")[2], folder=digits)

    assert done.code == 0, done.err
    accuracies = [float(found) for found in re.findall(r"^accuracy (\S+)$", done.out, re.MULTILINE)]
    assert len(accuracies) == len(programs) and min(accuracies) > 0.9


WITHOUT_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None\n"


def test_the_blocks_about_numpy_run(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", splits={"train": 70, "validation": 37}, size=(16, 16))

    done = run_python(WITHOUT_TENSORFLOW + code_of("arrays"), tmp_path)

    assert done.returncode == 0, done.stderr


def test_the_blocks_about_pytorch_run_with_a_stand_in(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", splits={"train": 70}, size=None)

    done = run_python(code_of("torch"), tmp_path, PYTHONPATH=f"{ROOT}:{ROOT / 'tests/doors/stand_in'}")

    assert done.returncode == 0, done.stderr


def test_the_blocks_about_grain_and_jax_run(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", splits={"train": 70, "validation": 37}, size=None)

    code = WITHOUT_TENSORFLOW + code_of("grain", "jax")
    compiled_faster = "--xla_backend_optimization_level=0"  # a step is run a few times, so slow steps cost less
    done = run_python(code, tmp_path, python_with("doors"), XLA_FLAGS=compiled_faster)

    assert done.returncode == 0, done.stderr


def test_the_blocks_about_buckets_run(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "out", splits={"train": 70}, size=(16, 16))
    with StrictGCS() as server:
        for file in written.path.iterdir():
            server.objects.put("bucket", f"flowers/{file.name}", file.read_bytes())
        (tmp_path / "read.py").write_text(code_of("gcs"))
        done = run_program(tmp_path / "read.py", backend="tensorflow", STORAGE_EMULATOR_HOST=server.url)

    assert done.code == 0, done.err


def test_a_folder_with_a_table_becomes_a_trained_model(tmp_path: Path) -> None:
    dogs, beetles = [], []
    for number in range(24):
        write(tmp_path / "dogs", f"train/{number:04x}.jpg", photo(number))
        dogs.append(
            {"id": f"{number:04x}", "breed": ("husky", "poodle")[number % 2], "age": number or None, "owner": "x"}
        )
        if number < 4:
            write(tmp_path / "beetles", f"{number}.jpg", photo(number))
            beetles.append({"file_name": f"{number}.jpg", "species": f"s{number % 2}"})
            for split in ("train", "validation"):
                write(tmp_path / "moths" / split, f"{number}.jpg", photo(number))
    write_table(tmp_path / "dogs" / "labels.csv", dogs)
    for split in ("train", "validation"):
        write_table(tmp_path / "moths" / split / "metadata.jsonl", beetles)
    write_table(tmp_path / "beetles" / "metadata.csv", beetles)

    built = run_shell("".join(blocks("docs/how-to/metadata.md", "sh")), tmp_path)
    assert built.returncode == 0, built.stderr
    (tmp_path / "train.py").write_text(code_of("table"))
    done = run_program(tmp_path / "train.py", backend="tensorflow", folder=tmp_path)

    assert done.code == 0, done.err
    assert "val_accuracy" in done.out


def test_the_commands_about_finding_records_run(tmp_path: Path) -> None:
    splits, classes = {"train": 70, "validation": 37}, ("dress", "hat", "skirt")
    written = write_dataset(tmp_path / "out", splits=splits, size=(16, 16), classes=classes)
    skirts = sum(split.class_counts["skirt"] for split in written.manifest.splits.values())
    code = "".join(block for block in blocks("docs/how-to/find-records.md", "sh") if "duckdb" not in block)
    assert code.count("shardfeed find out/ --where") == 7

    done = run_shell(code, tmp_path)

    assert done.returncode == 0, done.stderr
    counts = re.findall(r"^(\d+) of 107 records", done.stdout, re.MULTILINE)
    assert counts == [str(skirts), "107", "0", "0", "0", "0"]
    assert (tmp_path / "hits.png").read_bytes().startswith(b"\x89PNG")
    found = [json.loads(line) for line in (tmp_path / "skirts.jsonl").read_text().splitlines()]
    assert [row["label"] for row in found] == ["skirt"] * skirts


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: command.split()[0].removeprefix("examples/"))
def test_each_example_has_the_files_and_flags_of_its_command(command: str) -> None:
    example, *arguments = shlex.split(command, comments=True)
    source = (ROOT / example).read_text()

    assert [flag for flag in arguments if flag.startswith("--") and f'"{flag}"' not in source] == []
    assert [path for path in arguments if path.startswith("examples/") and not (ROOT / path).exists()] == []


def test_every_example_that_trains_has_its_command() -> None:
    named = {Path(command.split()[0]).name for command in EXAMPLES}

    assert named == {path.name for path in (ROOT / "examples").glob("*.py")} - {"demo.py"}


def test_flags_on_the_pages_are_those_of_the_program() -> None:
    from tools.docs_site import COMMANDS, parser_of

    flags = {name: {flag for action in parser_of(name)._actions for flag in action.option_strings} for name in COMMANDS}
    wrong = [
        (page.name, command, flag)
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if (match := re.search(r"\bshardfeed (\w+) (.*)", line)) and "--runner" not in line
        for command, flag in ((match[1], word.partition("=")[0]) for word in match[2].partition(" #")[0].split())
        if flag.startswith("-") and flag not in flags[command]
    ]

    assert wrong == []
