#!/usr/bin/env python3
"""Files of the programs that people write their data with give the samples that those programs read back.

Tars of Python's tarfile and of webdataset, TFRecords of tfrecord, environments of lmdb.
"""
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import unittest

import lmdb
import tfrecord
import webdataset
from tfrecord.writer import TFRecordWriter

PROGRAM = os.environ["MUSTER_LIST_SAMPLES"]
JPEG = b"\xff\xd8\xff"


def samples(count=60):
    """Keys, bytes and labels: names long and short, sizes from nothing to some blocks."""
    draw = random.Random(7)
    found = []
    for i in range(count):
        name = f"{i:04d}" + "n" * draw.choice([0, 3, 90, 200])
        folder = draw.choice(["a", "a-b", "c" * 120])
        found.append((f"{folder}/{name}", JPEG + draw.randbytes(draw.choice([0, 1, 509, 5000, 40000])), draw.randrange(1000)))
    return sorted(found)


def listed(kind, path):
    lines = subprocess.run([PROGRAM, kind, path], check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    return [(row["key"], bytes.fromhex(row["bytes"]), row["label"]) for row in rows]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-peer-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.samples = samples()

    def path(self, name):
        return os.path.join(self.folder, name)

    def add(self, archive, name, data):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))

    def test_tarfile(self):
        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            path = self.path(f"{form}.tar")
            wanted = self.samples
            if form == tarfile.USTAR_FORMAT:
                wanted = [sample for sample in wanted if len(os.path.basename(sample[0])) <= 96]
            with tarfile.open(path, "w", format=form) as archive:
                for key, data, label in wanted:
                    self.add(archive, key + ".jpg", data)
                    self.add(archive, key + ".cls", str(label).encode())
            self.assertEqual(listed("web_dataset", path), wanted)

    def test_tarfile_with_other_records(self):
        path = self.path("t.tar")
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "of all"}) as archive:
            member = tarfile.TarInfo("folder")
            member.type = tarfile.DIRTYPE
            archive.addfile(member)
            for key, data, label in self.samples:
                member = tarfile.TarInfo("./" + key + ".png")
                member.size, member.mtime, member.uname = len(data), 1.25, "\u00fc"
                member.pax_headers = {"SCHILY.xattr.user.x": "y\nz=1"}
                archive.addfile(member, io.BytesIO(data))
                self.add(archive, "./" + key + ".json", json.dumps({"label": label, "text": "\u00fc"}).encode())
        self.assertEqual(listed("web_dataset", path), self.samples)

    def test_gnu_tar(self):
        wanted = []
        for key, data, _ in self.samples:
            file = self.path("tree/" + key + ".jpg")
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(file, "wb") as out:
                out.write(data)
            wanted.append((key, data, -1))
        for form in ("gnu", "pax", "oldgnu"):
            path = self.path(form + ".tar")
            subprocess.run(["tar", f"--format={form}", "-cf", path, "-C", self.path("tree"), "."], check=True, timeout=60)
            self.assertEqual(listed("web_dataset", path), wanted)
        classes = sorted({key.split("/")[0] for key, _, _ in wanted})
        of_folder = [(key, data, classes.index(key.split("/")[0])) for key, data, _ in wanted]
        self.assertEqual(listed("image_folder", self.path("tree")), of_folder)

    def test_webdataset(self):
        path = self.path("t.tar")
        with webdataset.TarWriter(path, encoder=False) as writer:
            for key, data, label in self.samples:
                writer.write({"__key__": key, "jpg": data, "cls": str(label).encode()})
        read = webdataset.WebDataset(path, shardshuffle=False)
        theirs = sorted((row["__key__"], row["jpg"], int(row["cls"])) for row in read)
        self.assertEqual(theirs, self.samples)
        self.assertEqual(listed("web_dataset", path), theirs)

    def test_tfrecord(self):
        path = self.path("t.tfrecord")
        writer = TFRecordWriter(path)
        for key, data, label in self.samples:
            writer.write({"image/encoded": (data, "byte"), "image/class/label": (label, "int"), "image/height": (3, "int"),
                          "image/box": ([0.5, 0.25], "float"), "image/filename": ((key + ".JPEG").encode(), "byte")})
        writer.close()
        kinds = {"image/encoded": "byte", "image/class/label": "int", "image/filename": "byte"}
        theirs = sorted((bytes(row["image/filename"]).decode().split(".")[0], bytes(row["image/encoded"]), int(row["image/class/label"][0]))
                        for row in tfrecord.tfrecord_loader(path, None, kinds))
        self.assertEqual(theirs, self.samples)
        self.assertEqual(listed("tf_record", path), theirs)

    def test_lmdb(self):
        for name, many in (("few", False), ("many", True)):
            folder = self.path(name)
            classes = sorted({key.split("/")[0] for key, _, _ in self.samples})
            wanted = [(key, data, classes.index(key.split("/")[0])) for key, data, _ in self.samples]
            with lmdb.open(folder, map_size=1 << 28) as environment:
                for key, data, _ in wanted:
                    with environment.begin(write=True) as change:
                        change.put((key + ".jpg").encode(), data)
                        if many:  # pages that are free again
                            change.put(b"gone/%d" % len(data), bytes(len(data)))
                if many:
                    with environment.begin(write=True) as change, change.cursor() as cursor:
                        cursor.set_range(b"gone/")
                        while cursor.key().startswith(b"gone/"):
                            cursor.delete()
                with environment.begin() as read, read.cursor() as cursor:
                    theirs = [(bytes(key).decode().split(".")[0], bytes(value)) for key, value in cursor]
            self.assertEqual(sorted(theirs), [(key, data) for key, data, _ in wanted])
            self.assertEqual(listed("lmdb", os.path.join(folder, "data.mdb")), wanted)


if __name__ == "__main__":
    sys.exit(unittest.main())
