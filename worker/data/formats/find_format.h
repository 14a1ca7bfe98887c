// What the data at a path are, and which files belong to which split.
//
//   a folder of class folders          an image folder, split by train/, val/, test/ above it
//   *.tar                              WebDataset
//   *.tfrecord, *-00000-of-01024       TFRecord
//   *.rec                              RecordIO
//   a folder with data.mdb             LMDB
//   *.parquet, *.npy                   told, for other readers
//   a mirror of a Hugging Face dataset the files that its README.md names, or those in data/
//   such a repository in the Hub's cache its snapshot that `main` is, or the only one
//
// Used where a job names its data by a path only. Looks at names; at a file's first bytes where its
// name says nothing. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"

namespace muster::worker {

enum class DataFormat { kImageFolder, kWebDataset, kTfRecord, kRecordIo, kLmdb, kParquet, kNpy };
const char* DataFormatName(DataFormat format);  // "an image folder", "WebDataset", ...

// Of an image folder the "file" is the folder that holds the classes; of LMDB it is data.mdb.
struct FoundData {
  DataFormat format = DataFormat::kImageFolder;
  // Paths in byte order.
  std::vector<std::string> train;
  std::vector<std::string> validation;
  std::vector<std::string> test;
  std::vector<std::string> unnamed;  // whose names tell no split
};

// A file of this name says that shards beside it are still missing: who packs puts it there first
// and takes it away last.
inline constexpr char kUnfinishedPack[] = "pack.unfinished";

// `path` is a folder, a file or a pattern (file_pattern.h). A split is told by a folder train,
// validation, val, valid or test, else by such a word in a file's name: "train-000000.tar",
// "imagenet2012-validation.tfrecord-00000-of-00064"; a README.md with `configs` comes before names
// of files (parse/dataset_card.h). INVALID_ARGUMENT: nothing that is known, several formats beside
// each other, two folders for one split, several configurations of which none is the default.
// FAILED_PRECONDITION: a folder whose pack is unfinished. NOT_FOUND, and errors of FileSystem.
absl::StatusOr<FoundData> FindFormat(FileSystem& fs, const std::string& path);

// Files whose names tell no split are for training. INVALID_ARGUMENT where there are others for it,
// and where there are none at all.
absl::Status TakeUnnamedForTraining(const std::string& path, FoundData& found);

}  // namespace muster::worker
