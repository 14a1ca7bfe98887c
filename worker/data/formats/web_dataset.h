// A tar of samples, as WebDataset writes them (github.com/webdataset/webdataset, "The WebDataset
// Format"; the key's rule is that of its base_plus_ext).
//
//   n01440764/img_7.jpg    the input of the sample "n01440764/img_7"
//   n01440764/img_7.cls    its label: an integer as text; or the integer "label" of img_7.json
//
// The members of a sample stand beside each other. Used to index a data set: of the archive only
// headers and labels are read.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/formats/index_report.h"
#include "worker/data/formats/parse/file_cursor.h"
#include "worker/data/formats/sample_names.h"
#include "worker/data/formats/sample_sink.h"

namespace muster::worker {

struct WebDatasetOptions {
  // The member that is the input, by what stands behind the key's dot. In lower case; any case
  // counts.
  std::vector<std::string> extensions = PictureExtensions();
  std::string label_extension = "cls";
  std::string label_field = "label";  // of a .json member
  ReadWindow window;
};

// Beside the tars: the names of the classes, a line each, in the order of their numbers. Ours;
// other readers pass it over.
inline constexpr char kClassNamesFile[] = "classes.txt";

// Of that file in `folder`: empty where there is none. INVALID_ARGUMENT naming an empty line.
absl::StatusOr<std::vector<std::string>> ReadClassNames(FileSystem& fs, const std::string& folder);

// Adds the samples of one tar. Left out is a sample without an input, and links. INVALID_ARGUMENT:
// what TarMembers (parse/tar_members.h) refuses, a key that comes again, two inputs or two labels
// of one sample, a label that is no integer from -1 on (-1: none). Errors of FileSystem and of the
// sink.
absl::StatusOr<IndexReport> IndexWebDataset(FileSystem& fs, const std::string& path,
                                            const WebDatasetOptions& options, SampleSink& sink);

}  // namespace muster::worker
