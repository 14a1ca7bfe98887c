#include "worker/data/formats/sample_reader.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {

absl::Status ReadSample(FileSystem& fs, const std::string& path, uint64_t offset, uint64_t size,
                        char* buffer) {
  uint64_t done = 0;
  while (done < size) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs.ReadAt(path, offset + done, buffer + done, size - done));
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path, ": wanted ", size, " bytes at byte ", offset,
                                              ", got ", done,
                                              ": it is shorter than when it was indexed; index "
                                              "the data anew"));
    }
    done += got;
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
