#!/usr/bin/env python3
"""Muster's reader of Parquet beside pyarrow: every codec, encoding and page version, with and without missing values, many
row groups, large values; each value is the one that was written."""
import itertools
import os
import random
import subprocess
import tempfile
import unittest

import pyarrow as pa
import pyarrow.parquet as pq

PROGRAM = os.environ["MUSTER_PARQUET_ROWS"]


def rows_of(path):
    """What Muster reads, and how many values it says lie in place."""
    done = subprocess.run([PROGRAM, path], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"{os.path.basename(path)}: {done.stderr}")
    return done.stdout.splitlines(), int(done.stderr.split()[0])


def word(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return "%.17g" % value
    if isinstance(value, str):
        value = value.encode()
    return "x" + value.hex() if isinstance(value, bytes) else str(value)


def leaves(value, kind):
    if not pa.types.is_struct(kind):
        return [word(value)]
    return [w for field in kind for w in leaves(None if value is None else value[field.name], field.type)]


def wanted(table):
    return [" ".join(w for field in table.schema for w in leaves(row[field.name], field.type)) for row in table.to_pylist()]


def random_table(rows, nulls, seed, most_bytes=60):
    r = random.Random(seed)

    def column(make, kind):
        return pa.array([None if r.random() < nulls else make() for _ in range(rows)], kind)

    words = [f"word {i} of few" for i in range(9)]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.table({
        "image": column(lambda: {"bytes": None if r.random() < nulls else r.randbytes(r.randrange(most_bytes)),
                                 "path": f"{r.randrange(99)}.jpg"}, image),
        "deep": column(lambda: {"a": {"b": {"c": r.randrange(5)} if r.random() > nulls else None}},
                       pa.struct([("a", pa.struct([("b", pa.struct([("c", pa.int32())]))]))])),
        "label": column(lambda: r.randrange(1000), pa.int64()),
        "small": column(lambda: r.randrange(-2**31, 2**31), pa.int32()),
        "large": column(lambda: r.randrange(-2**63, 2**63), pa.int64()),
        "truth": column(lambda: r.random() < 0.9, pa.bool_()),
        "text": column(lambda: r.choice(words), pa.string()),
        "sorted": pa.array(sorted(f"{r.randrange(10**6):06d}" for _ in range(rows)), pa.string()),
        "real": column(lambda: float(pa.scalar(r.random(), pa.float32()).as_py()), pa.float32()),
        "double": column(r.random, pa.float64()),
        "fixed": column(lambda: r.randbytes(7), pa.binary(7)),
    })


DELTAS = {"image.bytes": "DELTA_LENGTH_BYTE_ARRAY", "image.path": "DELTA_BYTE_ARRAY", "text": "DELTA_BYTE_ARRAY",
          "sorted": "DELTA_BYTE_ARRAY", "label": "DELTA_BINARY_PACKED", "small": "DELTA_BINARY_PACKED",
          "large": "DELTA_BINARY_PACKED", "fixed": "DELTA_BYTE_ARRAY", "truth": "RLE"}
ENCODINGS = {"plain": {"use_dictionary": False}, "dictionary": {"use_dictionary": True},
             "full dictionary": {"use_dictionary": True, "dictionary_pagesize_limit": 300},
             "deltas": {"use_dictionary": False, "column_encoding": DELTAS}}


class AgainstPyArrow(unittest.TestCase):
    def check(self, table, **options):
        with tempfile.TemporaryDirectory(prefix="muster-parquet-") as folder:
            path = os.path.join(folder, "some.parquet")
            pq.write_table(table, path, **options)
            rows, in_place = rows_of(path)
        self.assertEqual(rows, wanted(table), str(options))
        return in_place

    def test_every_way_to_write_a_table(self):
        count = 0
        for codec, version, (name, encoding), nulls in itertools.product(
                ("none", "snappy", "gzip", "zstd"), ("1.0", "2.0"), ENCODINGS.items(), (0.0, 0.3, 1.0)):
            table = random_table(300, nulls, seed=count)
            in_place = self.check(table, compression=codec, data_page_version=version, row_group_size=110,
                                  data_page_size=512, write_page_checksum=count % 2 == 0, **encoding)
            if codec == "none" and nulls < 1.0:
                self.assertGreater(in_place, 100, name)
            count += 1
        print(count, "files")

    def test_many_row_groups_and_empty_tables(self):
        table = random_table(2000, 0.2, seed=7)
        self.check(table, row_group_size=3)
        self.check(table.slice(0, 0))
        self.check(table.slice(0, 1))

    def test_large_values(self):
        r = random.Random(3)
        sizes = (0, 1, 5 << 20, 3, 20 << 20, 70_000)
        table = pa.table({"bytes": pa.array([r.randbytes(size) for size in sizes], pa.binary()),
                          "id": pa.array(range(len(sizes)), pa.int32())})
        for codec in ("none", "snappy", "zstd"):
            self.check(table, compression=codec)
            self.check(table, compression=codec, use_dictionary=False, data_page_version="2.0", write_page_checksum=True)

    def test_without_missing_values_there_are_no_levels(self):
        table = random_table(500, 0.0, seed=9)
        schema = pa.schema([pa.field(f.name, f.type, nullable=False) for f in table.schema])
        for version in ("1.0", "2.0"):
            self.check(pa.table(table.columns, schema=schema), data_page_version=version)

    def test_other_codecs_are_refused_by_name(self):
        table = random_table(50, 0.0, seed=1)
        for codec, name in (("lz4", "LZ4_RAW"), ("brotli", "BROTLI")):
            with self.assertRaisesRegex(AssertionError, f"UNIMPLEMENTED.*codec {name} is not read"):
                self.check(table, compression=codec)


if __name__ == "__main__":
    unittest.main()
