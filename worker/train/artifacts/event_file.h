// TensorBoard's event files: scalars by name and step, as its readers expect them.
//
// The format: records of TFRecord (length, its masked CRC-32C, bytes, theirs), each one Event
// message of tensorflow/core/util/event.proto. The few fields that scalars need are encoded here by
// hand, for the trainer must not link protobuf. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class EventFile {
 public:
  // Makes `path` and begins it with the format's version and the start of a session: readers drop
  // what older files of the folder say of `step` and later ones. ALREADY_EXISTS, else fs's codes.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(FileSystem& fs, const std::string& path,
                                                           int64_t step, absl::Time now);

  // One event with all the values. fs's codes; the file must not be used after one.
  absl::Status AddScalars(int64_t step, const std::map<std::string, double>& values,
                          absl::Time now);

 private:
  explicit EventFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  absl::Status AppendRecord(absl::string_view event);

  const std::unique_ptr<WritableFile> file_;
};

}  // namespace muster::worker
