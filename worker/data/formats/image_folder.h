// A folder of pictures with a sub-folder for each class, as torchvision's ImageFolder reads it
// (docs.pytorch.org/vision, "ImageFolder").
//
//   train/n01440764/n01440764_10026.JPEG    key "n01440764/n01440764_10026", label 0
//   train/n01443537/left/n01443537_7.jpg    key "n01443537/left/n01443537_7", label 1
//
// Used to index a data set. Walks one folder at a time: memory is the list of the largest folder.
// No file is opened. A class may be a link to a folder; a picture may be a link to a file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/formats/index_report.h"
#include "worker/data/formats/sample_names.h"
#include "worker/data/formats/sample_sink.h"

namespace muster::worker {

struct ImageFolderOptions {
  std::vector<std::string> extensions = PictureExtensions();  // in lower case; any case counts
  // Of the training split, for the others: labels are places in it. Empty: the folder's own.
  std::vector<std::string> classes;
};

struct ImageFolderIndex {
  std::vector<std::string> classes;  // sub-folders in byte order; a label is a place in it
  IndexReport report;
};

// Adds every picture below `folder` as a file of its own. Hidden files and folders are passed over;
// what else is no picture is left out. INVALID_ARGUMENT: no class, no picture, a class that
// options.classes lacks, two pictures with one key, a link to a folder below a class. Errors of
// FileSystem::List and of the sink.
absl::StatusOr<ImageFolderIndex> IndexImageFolder(FileSystem& fs, const std::string& folder,
                                                  const ImageFolderOptions& options,
                                                  SampleSink& sink);

}  // namespace muster::worker
