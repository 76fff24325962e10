"""What a user of each extra does first, as one program.

Run with the interpreter under test; argument: base, beam or tf-cpu.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def build(photos: Path, out: Path, *flags: str) -> None:
    """Runs ``shardfeed build``."""
    run("build", "--input", str(photos), "--image_size", "32", "--output", str(out), *flags)


def run(*arguments: str) -> None:
    """Runs ``shardfeed``."""
    done = subprocess.run([sys.executable, "-m", "shardfeed", *arguments], cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def base(photos: Path, out: Path) -> None:
    """Builds, verifies, makes the report, and reads every record with NumPy."""
    import shardfeed

    build(photos, out, "--splits", "train=0.5,validation=0.5")
    report = shardfeed.verify(str(out), deep=True)
    assert report.ok, report
    run("report", str(out), "--output", f"{out}.html")
    info = shardfeed.info(str(out))
    batches = shardfeed.array_batches(info, "validation", info.splits["validation"].num_records)
    ((images, labels, weights),) = list(batches)
    assert (len(images), bool(weights.all())) == (info.splits["validation"].num_records, True)
    assert set(labels) <= set(range(len(info.classes)))


def beam(photos: Path, out: Path) -> None:
    """Builds without Beam and as a Beam pipeline: the same files."""
    build(photos, out / "here")
    build(photos, out / "beam", "--runner", "DirectRunner")
    here, there = (
        {path.name: path.read_bytes() for path in (out / name).iterdir() if path.is_file() and path.name != "run.json"}
        for name in ("here", "beam")
    )
    assert here == there


def tf_cpu(photos: Path, out: Path) -> None:
    """Trains one epoch with Keras and evaluates."""
    import keras

    import shardfeed

    build(photos, out, "--splits", "train=0.5,validation=0.5")
    info = shardfeed.info(str(out))
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(len(info.classes))])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    train = shardfeed.load(info, "train", 4, crop="random_resized", image_size=16)
    model.compile("adam", loss, **shardfeed.compile_args(train))
    validation = shardfeed.load(info, "validation", 4, crop="center", image_size=16)
    history = model.fit(train, validation_data=validation, verbose=0, **shardfeed.fit_args(train))
    assert history.history["val_loss"][0] > 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        {"base": base, "beam": beam, "tf-cpu": tf_cpu}[sys.argv[1]](Path(sys.argv[2]).resolve(), Path(folder))
    print("done on Python", sys.version.split()[0])
