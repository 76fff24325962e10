#!/usr/bin/env python
"""Makes small breaks in the product, one at a time, and counts those that the tests notice.

    python tools/mutants.py --out benchmarks/mutants.json              draws mutants and runs them
    python tools/mutants.py --list benchmarks/mutants.json --out FILE  runs the same in this tree
    python tools/mutants.py --list benchmarks/breaks.json --out FILE   runs breaks made by hand

It works in a copy of the last commit. A mutant of a list is found by its function and the text that
it changes, so files may have moved since. One run of the tests under coverage tells which tests
execute which line; only these are run for a mutant, each time in a fork of this process, which has
imported the third-party packages. Limits are CPU time, so the process may be stopped and continued.
``--out`` is written after each mutant: a second run carries on where the first ended.
"""

from __future__ import annotations

import argparse
import bisect
import collections
import contextlib
import gc
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage, CoverageData
from hypothesis import Phase, settings
from mutations import SEED, Mutant, applied, drawn, finder, sources

CHECKOUT = Path(__file__).resolve().parents[1]
TESTED = "arrays format golden plan reader status storage transforms verify"
IMPORTED = """_pytest.assertion.rewrite pytest_timeout _hypothesis_pytestplugin numpy PIL.ImageCms obstore simplejpeg
google.cloud.storage google_crc32c apache_beam tensorflow"""
OPTIONS = """-q --tb=short -p no:cacheprovider -p no:xdist -o timeout=0 -o faulthandler_timeout=0
-W ignore::pytest.PytestAssertRewriteWarning"""  # this process has imported a plugin
BATCHES = (
    (40, 30.0),
    (400, 60.0),
)  # most tests per mutant and their seconds under coverage; then, if it survives, more
CPU_SECONDS = 90  # per batch; more is a hang, which counts as caught
BREAK_CPU_SECONDS = 900  # per break by hand, which runs whole files of tests
IDLE_SECONDS = 60  # in which a run takes next to no CPU time: a deadlock


class Measure:
    """Plugin of pytest: notes seconds of each test, and the lines that it and the fixtures it
    shares execute.
    """

    def __init__(self, work: Path) -> None:
        self.path = work / "tests.json"
        self.coverage = Coverage(str(work / "coverage"), config_file=False, include=[str(path) for path in sources()])
        self.coverage.start()
        self.seconds: collections.Counter[str] = collections.Counter()
        self.contexts: dict[str, list[str]] = {}
        self.left_out: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        fixtures = (found[-1] for found in item._fixtureinfo.name2fixturedefs.values())
        shared = [f"{one.baseid} {one.argname}" for one in fixtures if one.scope != "function"]
        self.now, self.contexts[item.nodeid] = item.nodeid, [item.nodeid, *shared]
        self.coverage.switch_context(self.now)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        if fixturedef.scope != "function":
            self.coverage.switch_context(f"{fixturedef.baseid} {fixturedef.argname}")
        try:
            return (yield)
        finally:
            self.coverage.switch_context(self.now)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.left_out.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        print("left out, because they fail or are skipped:", *sorted(self.left_out), sep="\n", flush=True)
        kept = {test: (self.seconds[test], all_) for test, all_ in self.contexts.items() if test not in self.left_out}
        self.path.write_text(json.dumps(kept))


class Failed:
    """Plugin of pytest: writes the test that failed to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.path.write_text(report.nodeid)


def begun(tests: Sequence[str], log: Path, *, measure: bool = False) -> int:
    """Process id of a fork that runs ``tests`` in the current folder, to the first failure or
    measuring all.
    """
    if pid := os.fork():
        return pid
    code = 99
    try:
        os.setpgid(0, 0)
        for stream, name in ((0, os.devnull), (1, log), (2, log)):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND), stream)
        sys.path[0] = os.getcwd()
        sys.dont_write_bytecode = not measure  # a module that was changed for a moment must leave nothing behind
        os.environ |= {"PYTHONPATH": os.getcwd()} | ({} if measure else {"PYTHONDONTWRITEBYTECODE": "1"})
        phases = (Phase.explicit, Phase.generate)  # no example that fails is made smaller
        settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")
        plugins = [Measure(log.parent) if measure else Failed(log.with_suffix(".failed"))]
        options = [*OPTIONS.split(), *(() if measure else ("-x",)), f"--basetemp={log.parent / 'temp'}"]
        code = pytest.main([*tests, *options], plugins)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(pid: int, cpu_seconds: float) -> int | None:
    """Exit status of a run, a process group; None for a hang. Whatever is left of the group is
    killed.
    """
    ticks, idle, before, result = 0, 0, -1.0, None
    while result is None and idle < IDLE_SECONDS and before <= cpu_seconds:
        time.sleep(0.05)
        found, status = os.waitpid(pid, os.WNOHANG)
        result = os.waitstatus_to_exitcode(status) if found else None
        ticks += 1
        if result is None and ticks % 20 == 0:  # counted, because a clock would run on while this process is stopped
            os.killpg(pid, signal.SIGCONT)  # whoever stopped both may have continued this process alone
            used, active = usage(pid)
            idle = 0 if active or used > before + 0.05 else idle + 1  # a server of a test looks around now and then
            before = used
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if result is None:
        os.waitpid(pid, 0)
    return result


def usage(group: int) -> tuple[float, bool]:
    """CPU seconds of the threads of a group, and whether one of them would run if it could, or was
    stopped.
    """
    ticks, active = 0, False
    for path in Path("/proc").glob("[0-9]*/task/*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text(errors="replace").rpartition(")")[2].split()
            if int(words[2]) == group:
                ticks, active = ticks + int(words[11]) + int(words[12]), active or words[0] in "RDT"
    return ticks / os.sysconf("SC_CLK_TCK"), active


@contextlib.contextmanager
def written(path: Path, data: bytes) -> Iterator[None]:
    """``data`` is in the file; afterwards what was there, of the same age, so that its compiled
    module stays valid.
    """
    before, stat = path.read_bytes(), path.stat()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


class Sound:
    """Makes sure that the test which failed for a mutant passes without it."""

    def __init__(self) -> None:
        self._known: set[tuple[str, ...]] = set()

    def check(self, tests: Sequence[str], log: Path) -> None:
        note = log.with_suffix(".failed")
        wanted = (note.read_text(),) if note.exists() else tuple(tests)
        if wanted not in self._known and ended(begun(wanted, log.with_suffix(".sound")), BREAK_CPU_SECONDS) != 0:
            raise RuntimeError(f"without a mutant this fails too: {' '.join(wanted)}; see {log.with_suffix('.sound')}")
        self._known.add(wanted)


class Chooser:
    """Gives batches of tests of a mutant: the fastest case of each test function first, then the
    second ones.
    """

    def __init__(self, work: Path) -> None:
        if not (work / "tests.json").exists():
            tests = [f"tests/{name}" for name in TESTED.split() if Path("tests", name).exists()]
            ended(begun(tests, work / "measure.txt", measure=True), 3600)
        self._tests: dict[str, tuple[float, list[str]]] = json.loads((work / "tests.json").read_text())
        self._data = CoverageData(str(work / "coverage"))
        self._data.read()

    def batches(self, here: Mutant) -> list[list[str]]:
        found = self._data.contexts_by_lineno(os.path.abspath(here["file"]))
        statement, first, last = here["lines"]
        hit = {one for line in range(first, last + 1) for one in found.get(line, ())} or {*found.get(statement, ())}
        turns: collections.Counter[str] = collections.Counter()
        ranked = []
        for seconds, test in sorted((seconds, test) for test, (seconds, of) in self._tests.items() if hit & {*of}):
            function = test.partition("[")[0]
            ranked.append((turns[function], seconds, test))
            turns[function] += 1
        left, out = sorted(ranked), list[list[str]]()
        for tests, most in BATCHES:
            total = list(itertools.accumulate(seconds for _, seconds, _ in left[:tests]))
            count = max(1, bisect.bisect(total, most))  # one slower test is run all the same
            out, left = [*out, [test for _, _, test in left[:count]]], left[count:]
        return [batch for batch in out if batch]


@dataclass(frozen=True)
class Made:
    """A mutant in this tree: its file, the content of that, and batches of tests to run."""

    path: Path
    content: bytes
    batches: Sequence[Sequence[str]]


def _made_by_hand(item: dict[str, Any]) -> Made | None:
    """The text stands once, in ``file`` or, if that has moved, in another; None: it is gone."""
    for path in [Path(item["file"]), *sources()]:
        if path.exists() and (text := path.read_text()).count(item["old"]) == 1:
            return Made(path, text.replace(item["old"], item["new"]).encode(), [item["tests"]])
    return None


def _drawn(find: Callable[[Mutant], Mutant | None], choose: Chooser) -> Callable[[dict[str, Any]], Made | None]:
    def make(item: dict[str, Any]) -> Made | None:
        here = find(item)
        return Made(Path(here["file"]), applied(here), choose.batches(here)) if here else None

    return make


def run(items: list[dict[str, Any]], out: Path, work: Path) -> None:
    """Notes the result of each: caught, hang, survived, unreached (by any test) or gone (from this
    tree).
    """
    for name in IMPORTED.split():
        import_module(name)
    gc.freeze()  # collections in a fork then leave alone what was imported here
    by_hand = all("old" in item for item in items)
    make = _made_by_hand if by_hand else _drawn(finder(), Chooser(work))
    sound = Sound()
    order = random.Random(SEED).sample(range(len(items)), len(items))  # those run so far are a sample of all files
    for number in range(len(items)) if by_hand else order:
        item = items[number]
        if "result" in item:
            continue
        made = make(item)
        if made is None:
            item["result"] = "gone"
            continue
        item["result"] = "unreached"
        for tests in made.batches:
            with written(made.path, made.content):
                pid = begun(tests, work / f"{number:03}.txt")
                status = ended(pid, BREAK_CPU_SECONDS if by_hand else CPU_SECONDS)
            item["result"] = {0: "survived", None: "hang"}.get(status, "caught")
            if status != 0:
                if status is not None:
                    sound.check(tests, work / f"{number:03}.txt")
                break
        out.write_text("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in items) + "\n]\n")


def table(items: list[dict[str, Any]]) -> str:
    """Results by file, in Markdown. What was argued to be ``equivalent`` counts for nothing."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for item in items:
        for name in (item["file"], "all"):
            found = "equivalent" if "equivalent" in item else item.get("result", "not run")
            counts[name]["caught" if found == "hang" else found] += 1
    columns = ["caught", "survived", "unreached", "equivalent", "gone", "not run"]
    rows = [["file", *columns, "share"], ["---", *["---:"] * (len(columns) + 1)]]
    for name in sorted(counts, key=lambda name: (name == "all", name)):
        count = counts[name]
        counted = count["caught"] + count["survived"] + count["unreached"]
        share = f"{count['caught'] / counted:.3f}" if counted else ""
        rows.append([name, *(str(count[column]) for column in columns), share])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Draws or reads the list, runs what has no result yet, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=Path, help="mutants or breaks to run; default: draw mutants")
    parser.add_argument("--out", type=Path, required=True, help="results; those that are there already are kept")
    parser.add_argument("--work", type=Path, default="out/mutants", help="folder for copy, measurement and logs")
    args = parser.parse_args()
    out, work = args.out.resolve(), args.work.resolve()
    items = json.loads((out if out.exists() else args.list).read_text()) if out.exists() or args.list else []
    for item in items if not out.exists() else ():
        item.pop("result", None)
    (work / "tree").mkdir(parents=True, exist_ok=True)
    # Each time: a run that was killed leaves a mutant behind.
    subprocess.run(["bash", "-c", 'git archive HEAD | tar -x -C "$0"', str(work / "tree")], check=True)
    os.chdir(work / "tree")
    # The packages as they are installed: without these links, Python would import a checkout's.
    links = {f"shardfeed/{name}": Path("..", name) for name in ("pipeline", "transforms")}
    for name, target in (links | {".engines": CHECKOUT / ".engines"}).items():  # and the programs that were fetched
        Path(name).unlink(missing_ok=True)
        Path(name).symlink_to(target)
    run(items := items or drawn(), out, work)
    print(table(items))


if __name__ == "__main__":
    main()
