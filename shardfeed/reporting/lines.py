"""The lines of a dataset's JSON Lines files, from the front."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo
from shardfeed.errors import clip
from shardfeed.storage.stored_file import open_file
from shardfeed.verification.report import damaged

MOST_BYTES = 16 << 20  # of a file that is looked through; some 100,000 lines


def json_lines(dataset: DatasetInfo, name: str) -> Iterator[dict[str, Any]]:
    """The objects in the first 16 MiB of the file ``name``.

    Raises:
        DatasetError: the file is absent, or a line is no JSON object.
        StorageError: the store kept failing.
    """
    store = storage.open_store(dataset.url)
    stat = store.stat(name)
    if stat is None:
        raise damaged(dataset.url, name, "it is not there")
    read = 0
    with open_file(store, name, stat.size) as file:
        for number, line in enumerate(file, 1):
            read += len(line)
            if read > MOST_BYTES:
                return
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise damaged(dataset.url, name, f"line {number} is not JSON ({clip(error)})") from None
            if not isinstance(found, dict):
                raise damaged(dataset.url, name, f"line {number} is no JSON object")
            yield found
