// MXNet's RecordIO with pictures, as its im2rec writes them.
//
//   uint32 magic 0xced7230a, uint32 part << 29 | length, the bytes, up to 3 more to a multiple of 4
//   (github.com/dmlc/dmlc-core, include/dmlc/recordio.h)
//   the bytes: uint32 flag, float label, uint64 id, uint64 id2, `flag` floats of labels, the
//   picture (github.com/apache/mxnet, python/mxnet/recordio.py, IRHeader)
//
// little-endian. Beside data.rec may lie data.idx with lines "KEY<tab>OFFSET". Used to index a data
// set: headers only are read.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/formats/index_report.h"
#include "worker/data/formats/parse/file_cursor.h"
#include "worker/data/formats/sample_sink.h"

namespace muster::worker {

struct RecordIoOptions {
  bool use_idx = true;  // where there is one; else records are numbered: "data.rec:00000012"
  ReadWindow window;
};

// Where the keys of its records may lie.
std::string RecordIdxPath(const std::string& path);

// Adds the samples of one file. A label is a class: the number of the header, or the first of its
// vector. Left out, with the reason: a record whose bytes hold the magic number, which the format
// stores in several parts (about one in two million pictures of 100 KB); one without a picture; one
// that the .idx does not name. INVALID_ARGUMENT with the place: no record, a part without its
// beginning or end, a label that is no whole number from -1 on (-1: none), a file that is cut off,
// an .idx that fits another file. Errors of FileSystem and of the sink.
absl::StatusOr<IndexReport> IndexRecordIo(FileSystem& fs, const std::string& path,
                                          const RecordIoOptions& options, SampleSink& sink);

}  // namespace muster::worker
