// What the reader of a format finds: where the bytes of each sample lie.
//
// A format is a function that walks one file (or one folder) and adds its samples to a sink: only
// headers are read, never the samples. Reading a sample later is the same for every format: so many
// bytes of a file from an offset on. So the same data give the same samples in every format.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

// A sample that its file gives no class.
inline constexpr int64_t kNoLabel = -1;

struct FoundSample {
  // Names the sample within its split. Samples are ordered by the bytes of their keys.
  absl::string_view key;
  uint32_t file = 0;    // as AddFile gave it
  uint64_t offset = 0;  // of the sample's input in that file, in bytes
  uint64_t size = 0;    // of it, in bytes
  int64_t label = kNoLabel;
};

class SampleSink {
 public:
  virtual ~SampleSink() = default;

  // A file that samples lie in, by the path that it is opened with.
  virtual uint32_t AddFile(const std::string& path, uint64_t size_bytes) = 0;
  // INVALID_ARGUMENT where the sample does not lie in its file; else the errors of keeping it.
  virtual absl::Status Add(const FoundSample& sample) = 0;
};

}  // namespace muster::worker
