"""On workers of their own, too, a file that crashes or hangs a codec costs one image."""

from __future__ import annotations

from pathlib import Path

from tests.kit import builds, disk
from tests.kit.images import make_photos, photo, write
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Server

# What a worker runs first has the decoders of all processes that it starts crash and hang.
HOOK = """
BAD = '''
import ctypes
from shardfeed.transforms.images import process
good = process.process_image
def bad(data, *args, **kwargs):
    if data.endswith(b"#crash"):
        ctypes.string_at(0)
    while data.endswith(b"#spin"):
        pass
    return good(data, *args, **kwargs)
process.process_image = bad
'''
from shardfeed.transforms.pool import isolated, pool
for module in (isolated, pool):
    module._BOOT = f"exec({BAD!r}); {module._BOOT}"
"""


def test_crashes_and_hangs_of_a_codec_cost_one_image_each_and_no_worker(
    prism_program: Path, pool: Server, hook: Path, tmp_path: Path
) -> None:
    photos, out = make_photos(tmp_path / "photos", each=20), tmp_path / "out"
    for number, deed in enumerate((b"#crash", b"#crash", b"#spin")):
        write(photos, f"cat/bad-{number}.jpg", photo(number) + deed)
    hook.write_text(HOOK)
    with servers.prism(prism_program, pool, tmp_path) as engine:
        builds.built(photos, out, "--image_timeout", "1", *engine.flags, env={"TMPDIR": str(tmp_path)})
    reasons = {line["key"]: line["reason"] for line in disk.rejects(out)}
    assert reasons == {"cat/bad-0.jpg": "CRASHED", "cat/bad-1.jpg": "CRASHED", "cat/bad-2.jpg": "TIMEOUT"}
    assert len(disk.keys(out)) == 40
