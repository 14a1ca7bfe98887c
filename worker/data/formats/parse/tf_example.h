// What of a tf.train.Example is a sample: where its picture lies, its label and its key.
//
// Used by the TFRecord reader. The message is
//   Example { features = 1: Features { feature = 1: map<string, Feature> } }
//   Feature { bytes_list = 1, float_list = 2, int64_list = 3 }, each a list { value = 1 }
// (github.com/tensorflow/tensorflow, tensorflow/core/example/example.proto and feature.proto), read
// by hand. Lists of numbers may be packed or not; a map's key may stand behind its value. One
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/formats/parse/file_cursor.h"
#include "worker/data/formats/sample_sink.h"

namespace muster::worker {

// Names of features, as TensorFlow's own scripts of ImageNet and TFDS write them.
struct TfExampleFeatures {
  std::string input = "image/encoded";
  std::string label = "image/class/label";
  std::string file_name = "image/filename";  // the key is taken from it as from any path
  std::string key = "__key__";               // the key as it is, where there is no file name
};

struct TfExample {
  uint64_t offset = 0;  // of the input in the file, in bytes
  uint64_t size = 0;    // of it
  int64_t label = kNoLabel;
  std::string key;  // empty: it has none
};

// The Example in [begin, end) of the cursor's file; requires begin <= end <= its size.
// INVALID_ARGUMENT: it is no Example, has no input (then the message names what it has), a feature
// twice, more than one value where one is wanted, a label less than -1 (-1: none).
absl::StatusOr<TfExample> ReadTfExample(FileCursor& cursor, uint64_t begin, uint64_t end,
                                        const TfExampleFeatures& features);

}  // namespace muster::worker
