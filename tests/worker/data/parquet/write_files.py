#!/usr/bin/env python3
"""Writes the Parquet files of this folder's tests, with pyarrow: `write_files.py FOLDER`.

They are kept in the repository, so that the tests need no pyarrow. Row i has what parquet_file_test.cc says of it.
"""
import json
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 24
CLASSES = ["ant", "bee", "cat"]
FEATURES = {"image": {"_type": "Image"}, "label": {"names": CLASSES, "_type": "ClassLabel"}}


def table(nulls):
    def unless(number, value):
        return None if nulls and number % 7 == 3 else value

    rows = range(ROWS)
    images = [{"bytes": bytes((i + j) % 256 for j in range(i * 5)), "path": unless(i + 1, f"{i}.png")} for i in rows]
    columns = {
        "image": pa.array(images, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "label": pa.array([unless(i, i % 3) for i in rows], pa.int64()),
        "text": pa.array([unless(i + 2, f"row {i // 2} of some") for i in rows], pa.string()),
        "small": pa.array([unless(i + 3, i * i - 50) for i in rows], pa.int32()),
        "truth": pa.array([unless(i + 4, i % 5 == 0) for i in rows], pa.bool_()),
        "real": pa.array([unless(i + 5, i / 4) for i in rows], pa.float32()),
        "double": pa.array([i / 8 for i in rows], pa.float64()),
        "fixed": pa.array([f"{i:05d}".encode() for i in rows], pa.binary(5)),
        "list": pa.array([[i] * (i % 3) for i in rows], pa.list_(pa.int32())),
    }
    metadata = {"huggingface": json.dumps({"info": {"features": FEATURES}})}
    fields = [pa.field(n, c.type, nullable=n not in ("double", "fixed")) for n, c in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields, metadata=metadata))


DELTAS = {"image.bytes": "DELTA_LENGTH_BYTE_ARRAY", "image.path": "DELTA_BYTE_ARRAY", "text": "DELTA_BYTE_ARRAY",
          "label": "DELTA_BINARY_PACKED", "small": "DELTA_BINARY_PACKED", "fixed": "DELTA_BYTE_ARRAY", "truth": "RLE"}
FILES = {
    "plain_v1": {"compression": "none", "use_dictionary": False},
    "dictionary_v1_snappy": {"compression": "snappy"},
    "plain_v2_zstd": {"compression": "zstd", "use_dictionary": False, "data_page_version": "2.0"},
    "dictionary_v2": {"compression": "none", "data_page_version": "2.0", "write_page_checksum": True},
    "delta_v1_gzip": {"compression": "gzip", "use_dictionary": False, "column_encoding": DELTAS},
    "delta_v2": {"compression": "none", "use_dictionary": False, "data_page_version": "2.0", "column_encoding": DELTAS},
    "without_nulls": {"compression": "none", "use_dictionary": False, "write_page_checksum": True, "nulls": False},
    "lz4": {"compression": "lz4", "use_dictionary": False},
}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, options in FILES.items():
        options = dict(options)
        made = table(options.pop("nulls", True))
        pq.write_table(made, os.path.join(folder, name + ".parquet"), row_group_size=10, data_page_size=64,
                       write_batch_size=4, write_statistics=False, **options)


if __name__ == "__main__":
    main()
