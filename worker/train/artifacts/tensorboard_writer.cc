#include "worker/train/artifacts/tensorboard_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace muster::worker {

void TensorBoardWriter::Metrics(int64_t step, const std::map<std::string, double>& values) {
  next_.Metrics(step, values);
  if (given_up_) return;
  const absl::Status written = Write(step, values);
  if (written.ok()) return;
  given_up_ = true;
  Log(LogLevel::kWarning, "tensorboard_given_up", {{"error", written.ToString()}});
}

absl::Status TensorBoardWriter::Write(int64_t step, const std::map<std::string, double>& values) {
  const absl::Time now = absl::Now();
  if (file_ == nullptr) {
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(folder_));
    // Readers take files in the order of the number behind "tfevents.".
    const std::string name =
        absl::StrFormat("events.out.tfevents.%010d.muster.a%d", absl::ToUnixSeconds(now), attempt_);
    MUSTER_ASSIGN_OR_RETURN(
        file_, EventFile::Create(fs_, absl::StrCat(folder_, "/", name), done_before_ + 1, now));
  }
  return file_->AddScalars(step, values, now);
}

}  // namespace muster::worker
