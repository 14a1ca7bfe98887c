// An LMDB environment of pictures, as Caffe and others write them. Two kinds of values:
//
//   Caffe's Datum (github.com/BVLC/caffe, src/caffe/proto/caffe.proto): data = 4, label = 5,
//   encoded = 7, which must be true: raw pixels are no picture here. The key is taken as a path.
//
//   A picture's own bytes under a key "CLASS/NAME.jpg": the first folder of the key is the class,
//   and a label its place among the classes in byte order, as in an image folder.
//
// Used to index a data set: keys, and of values the fields' tags, are read (parse/lmdb_pages.h).
// Nobody may write to the file meanwhile.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/formats/index_report.h"
#include "worker/data/formats/parse/file_cursor.h"
#include "worker/data/formats/sample_sink.h"

namespace muster::worker {

// Values in the order of their keys lie anywhere in the file, so that little is read of each.
inline constexpr ReadWindow kLmdbWindow = {4 << 10, 1 << 20};

struct LmdbOptions {
  // Of the training split, for the others, or of all files where a split has several; for pictures
  // that are values themselves. Empty: the file's own.
  std::vector<std::string> classes;
  ReadWindow window = kLmdbWindow;
};

struct LmdbIndex {
  std::vector<std::string> classes;  // empty where labels are in the values
  IndexReport report;
};

// Adds the samples of one file, `path` being that of data.mdb itself. Left out: keys that begin
// with
// "__", which tell of the others. INVALID_ARGUMENT: what LmdbPages refuses, a value that is neither
// kind, a Datum of pixels or without label, a class that options.classes lacks. Errors of
// FileSystem and of the sink.
absl::StatusOr<LmdbIndex> IndexLmdb(FileSystem& fs, const std::string& path,
                                    const LmdbOptions& options, SampleSink& sink);

// The classes of a file of pictures, in byte order; none where its values are Datums. For a split
// of several files. Errors as IndexLmdb's.
absl::StatusOr<std::vector<std::string>> FindLmdbClasses(FileSystem& fs, const std::string& path,
                                                         ReadWindow window = kLmdbWindow);

}  // namespace muster::worker
