#!/usr/bin/env python3
"""Other data loaders as benchmarks/data/run starts them: each makes batches of 64 random-resized crops of 224x224 with a
flip until it is killed, and prints {"samples": so many until now} after each.

  rivals.py prepare FOLDER            from FOLDER/pictures and FOLDER/plain: FOLDER/beton for FFCV, FOLDER/mds for Streaming
  rivals.py parquet FILE              5,000 rows of 103,000 bytes each, as Hugging Face writes pictures, not compressed
  rivals.py NAME FOLDER WORKERS       of dataloader, webdataset, streaming, dali, ffcv; 0 workers: in the process itself
  rivals.py NAME FOLDER 0 --skip N    goes on after N batches of the epoch, in the quickest way that it knows

All read the same bytes of JPEG. They stop at a batch of bytes [64, 224, 224, 3], which spares them what Muster does:
making normalised floats of it. What is drawn costs them a call of Python's random.
"""
import argparse
import glob
import importlib.util
import io
import itertools
import json
import math
import os
import random
import sys
import types

BATCH = 64
SIDE = 224


def random_crop(width, height):
    """torchvision's RandomResizedCrop: (left, top, right, bottom)."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def through_pil(content):
    """One sample: open, convert, resize the crop (torchvision copies it out first), flip."""
    import numpy as np
    import torch
    from PIL import Image
    image = Image.open(io.BytesIO(content)).convert("RGB")
    image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=random_crop(*image.size))
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(image))


def one_thread_each():
    import torch
    torch.set_num_threads(1)
    return torch


def picture_paths(folder):
    classes = sorted(os.listdir(os.path.join(folder, "pictures", "train")))
    return [(path, label) for label, name in enumerate(classes)
            for path in sorted(glob.glob(os.path.join(folder, "pictures", "train", name, "*.jpg")))]


class Files:
    """torchvision's ImageFolder."""

    def __init__(self, folder):
        self.paths = picture_paths(folder)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path, label = self.paths[index]
        with open(path, "rb") as file:
            return through_pil(file.read()), label


class RandomBatches:
    """A batch sampler that skips without reading, as Hugging Face's Accelerate does it."""

    def __init__(self, samples, skip):
        self.samples, self.skip = samples, skip

    def __iter__(self):
        import torch
        order = torch.randperm(self.samples).tolist()
        for first in range(self.skip * BATCH, self.samples - BATCH + 1, BATCH):
            yield order[first:first + BATCH]


def torch_loader(data, workers, **options):
    torch = one_thread_each()
    return torch.utils.data.DataLoader(data, num_workers=workers, persistent_workers=workers > 0, **options)


def dataloader(folder, workers, skip):
    one_thread_each()
    files = Files(folder)
    batches = torch_loader(files, workers, batch_sampler=RandomBatches(len(files), skip))
    while True:
        yield from batches


def webdataset(folder, workers, skip):
    import webdataset
    one_thread_each()
    shards = sorted(glob.glob(os.path.join(folder, "plain", "train-*.tar")))
    data = webdataset.WebDataset(shards, shardshuffle=len(shards), handler=webdataset.reraise_exception,
                                 empty_check=False)
    if skip:  # it keeps no place: the samples before are read from their tars, though not decoded
        data = data.slice(skip * BATCH, sys.maxsize)
    data = data.shuffle(200).to_tuple("jpg", "cls").map_tuple(through_pil, int).batched(BATCH, partial=False)
    batches = torch_loader(data, workers, batch_size=None)
    while True:
        yield from batches


def streaming_classes():
    """Of Streaming's base alone: the whole package also imports torchvision and asks for as new a torch."""
    place = importlib.util.find_spec("streaming").submodule_search_locations
    sys.modules["streaming"] = package = types.ModuleType("streaming")
    package.__path__ = list(place)
    from streaming.base import MDSWriter, StreamingDataset
    return MDSWriter, StreamingDataset


def streaming(folder, workers, skip):
    one_thread_each()
    _, streaming_dataset = streaming_classes()

    class Pictures(streaming_dataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return through_pil(sample["image"]), sample["label"]

    data = Pictures(local=os.path.join(folder, "mds"), shuffle=True, batch_size=BATCH, num_canonical_nodes=1)
    if skip:
        data.load_state_dict({"epoch": 0, "sample_in_epoch": skip * BATCH, "num_canonical_nodes": 1,
                              "shuffle_seed": data.shuffle_seed, "initial_physical_nodes": 1})
    batches = torch_loader(data, workers, batch_size=BATCH, drop_last=True)
    while True:
        yield from batches


def dali(folder, workers, skip):
    from nvidia.dali import fn, pipeline_def, types as dali_types
    del skip

    @pipeline_def(batch_size=BATCH, num_threads=max(1, workers), device_id=None, prefetch_queue_depth=2)
    def pipeline():
        files, labels = fn.readers.file(file_root=os.path.join(folder, "pictures", "train"), random_shuffle=True)
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=dali_types.RGB,
                                               random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, resize_x=SIDE, resize_y=SIDE, interp_type=dali_types.INTERP_LINEAR)
        return fn.flip(images, horizontal=fn.random.coin_flip(probability=0.5)), labels

    running = pipeline()
    running.build()
    while True:
        yield running.run()


def ffcv(folder, workers, skip):
    from ffcv.fields import RGBImageField
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, Squeeze, ToTensor
    del skip
    one_thread_each()
    batches = Loader(os.path.join(folder, "beton"), batch_size=BATCH, num_workers=max(1, workers), os_cache=True,
                     order=OrderOption.RANDOM, drop_last=True, custom_fields={"image": RGBImageField}, pipelines={
                         "image": [RandomResizedCropRGBImageDecoder((SIDE, SIDE)), RandomHorizontalFlip(), ToTensor()],
                         "label": [IntDecoder(), ToTensor(), Squeeze()]})
    while True:
        yield from batches


LOADERS = {"dataloader": dataloader, "webdataset": webdataset, "streaming": streaming, "dali": dali, "ffcv": ffcv}


def write_mds(folder):
    writer_class, _ = streaming_classes()
    with writer_class(out=os.path.join(folder, "mds"), columns={"image": "bytes", "label": "int"},
                      size_limit=16 << 20) as writer:
        order = picture_paths(folder)
        random.Random(1).shuffle(order)
        for path, label in order:
            with open(path, "rb") as file:
                writer.write({"image": file.read(), "label": label})


def write_beton(folder):
    import numpy as np
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.rgb_image import IMAGE_MODES
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class SameJpeg(RGBImageField):
        """Writes a file's own bytes, which RGBImageField decodes and encodes anew."""

        def encode(self, destination, path, malloc):
            with open(path, "rb") as file:
                content = file.read()
            destination["mode"] = IMAGE_MODES["jpg"]
            destination["width"], destination["height"] = Image.open(path).size
            destination["data_ptr"], storage = malloc(len(content))
            storage[:] = np.frombuffer(content, dtype=np.uint8)

    DatasetWriter(os.path.join(folder, "beton"), {"image": SameJpeg(write_mode="jpg"), "label": IntField()},
                  num_workers=1).from_indexed_dataset(picture_paths(folder))


def prepare(folder):
    """What could not be made is named; its loader then fails for want of it."""
    for name, write in (("streaming", write_mds), ("ffcv", write_beton)):
        try:
            write(folder)
        except ImportError as error:
            print(f"{name} is not there: {error}")


def write_parquet(file):
    import pyarrow
    import pyarrow.parquet
    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    schema = pyarrow.schema([("image", image), ("label", pyarrow.int64())])
    with pyarrow.parquet.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, 5000, 100):
            rows = [{"image": {"bytes": b"\xff\xd8\xff" + bytes([i % 256]) * 102_997, "path": f"c/img_{i:07}.jpg"},
                     "label": i % 100} for i in range(first, first + 100)]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["prepare", "parquet", *LOADERS])
    parser.add_argument("folder")
    parser.add_argument("workers", type=int, nargs="?", default=0)
    parser.add_argument("--skip", type=int, default=0)
    options = parser.parse_args()
    if options.name == "prepare":
        return prepare(options.folder)
    if options.name == "parquet":
        return write_parquet(options.folder)
    batches = LOADERS[options.name](options.folder, options.workers, options.skip)
    for count, _ in zip(itertools.count(1), batches):
        print(json.dumps({"samples": count * BATCH}), flush=True)


if __name__ == "__main__":
    main()
