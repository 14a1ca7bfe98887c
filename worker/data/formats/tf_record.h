// A TFRecord file whose records are tf.train.Example messages, such as ImageNet's and TFDS's.
//
//   uint64 length, uint32 masked CRC32C of the length, the record, uint32 masked CRC32C of it
//
// little-endian, one after the other (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords
// format details"). Used to index a data set: what is read are the headers, and of a record its
// fields' tags, not the picture.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/formats/index_report.h"
#include "worker/data/formats/parse/file_cursor.h"
#include "worker/data/formats/parse/tf_example.h"
#include "worker/data/formats/sample_sink.h"

namespace muster::worker {

struct TfRecordOptions {
  TfExampleFeatures features;
  // Reads all bytes and compares their checksums, too.
  bool verify = false;
  ReadWindow window;
};

// Adds the samples of one file. A record without a name is called by the file's and its number:
// "train-00000-of-01024:00000012". INVALID_ARGUMENT with the place: the checksum of a length or,
// where options.verify, of a record is wrong; the file is cut off or compressed; a record is no
// Example with one picture (parse/tf_example.h). Errors of FileSystem and of the sink.
absl::StatusOr<IndexReport> IndexTfRecords(FileSystem& fs, const std::string& path,
                                           const TfRecordOptions& options, SampleSink& sink);

}  // namespace muster::worker
