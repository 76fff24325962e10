"""Runs where other engines are installed: prints, as JSON, what each reads of the tables in a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import datasets
import duckdb
import pandas as pd
import polars as pl

folder, cache = sys.argv[1:]
tables = f"{folder}/*.parquet"


def counted(labels: Iterable[str]) -> dict[str, int]:
    labels = list(labels)
    return {label: labels.count(label) for label in sorted(set(labels))}


def by_duckdb() -> dict[str, Any]:
    rows = duckdb.sql(f"select * from '{tables}' order by key").fetchall()
    names = [column[0] for column in duckdb.sql(f"describe select * from '{tables}'").fetchall()]
    counts = duckdb.sql(f"select label, count(*) from '{tables}' group by 1 order by 1").fetchall()
    return {"rows": [dict(zip(names, row, strict=True)) for row in rows], "counts": dict(counts)}


def by_polars() -> dict[str, Any]:
    frame = pl.read_parquet(tables).sort("key")
    return {"rows": frame.to_dicts(), "counts": counted(frame["label"])}


def by_pandas() -> dict[str, Any]:
    frame = pd.read_parquet(folder, dtype_backend="pyarrow", filters=None).sort_values("key")
    rows = json.loads(frame.to_json(orient="records", double_precision=0))
    return {"rows": rows, "counts": {label: int(n) for label, n in sorted(frame["label"].value_counts().items())}}


def by_datasets() -> dict[str, Any]:
    found = datasets.load_dataset("parquet", data_files=tables, cache_dir=cache, split="train")
    rows = sorted(found, key=lambda row: row["key"])
    return {"rows": rows, "counts": counted(found["label"])}


print(json.dumps({run.__name__[3:]: run() for run in (by_duckdb, by_polars, by_pandas, by_datasets)}))
