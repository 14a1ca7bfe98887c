#include "worker/data/broken_samples.h"

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace muster::worker {
bool BrokenSamples::Has(Split split, int64_t id) const {
  if (!any_) return false;
  MutexLock lock(mutex_);
  return samples_.count({split, id}) > 0;
}

absl::Status BrokenSamples::Add(Split split, int64_t id, const std::string& name,
                                const absl::Status& why) {
  const absl::Status named(why.code(), absl::StrCat(name, " ", why.message()));
  uint64_t count = 0;
  bool is_new = false;
  {
    MutexLock lock(mutex_);
    is_new = samples_.insert({split, id}).second;
    count = samples_.size();
    any_ = true;
  }
  if (count > limit_) {
    return absl::Status(why.code(), absl::StrCat(named.message(), "; ", count,
                                                 " broken samples are more than train.data.images."
                                                 "broken_samples, ",
                                                 limit_));
  }
  if (is_new) {
    Log(LogLevel::kWarning, "broken_sample",
        {{"sample", name}, {"error", why.message()}, {"broken", count}, {"limit", limit_}});
  }
  return absl::OkStatus();
}

uint64_t BrokenSamples::count() const {
  MutexLock lock(mutex_);
  return samples_.size();
}

}  // namespace muster::worker
