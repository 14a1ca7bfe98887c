#include "worker/train/run/data_limit.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster::worker {
namespace {

constexpr double kWorthSaying = 0.02;  // of the time; less is a batch that is handed over

constexpr int kMostThreads = 256;  // of train.data.threads

const char* LongestStage(const StageSeconds& busy) {
  if (busy.read >= busy.decode && busy.read >= busy.augment) return "reading";
  return busy.decode >= busy.augment ? "decoding" : "augmentation";
}

}  // namespace

std::string DataLimitText(const DataTimes& times) {
  if (times.seconds <= 0) return "";
  const double waited = times.wait_seconds / times.seconds;
  if (waited < kWorthSaying) {
    return absl::StrFormat("Data came in time: the steps waited %.1f %% of the time for it.",
                           100 * waited);
  }
  const std::string text =
      absl::StrFormat("The device waited %.0f %% of the time for data, of which %s took most",
                      100 * waited, LongestStage(times.busy));
  if (times.threads == 0) return text + ".";
  // So many threads do the same work in the time that the steps take by themselves.
  const double without = std::max(times.seconds - times.wait_seconds, 1e-9);
  const int wanted = static_cast<int>(std::ceil(std::min(times.busy.total() / without, 1e6)));
  const int more = wanted - times.threads;
  if (wanted > kMostThreads) {
    return text + ": want more CPUs, more ranks, or less augmentation.";
  }
  if (more <= 0) {
    return text + ": not for want of threads (train.data.threads) but of CPUs, or of what is read.";
  }
  return absl::StrCat(text, ": ", more, more == 1 ? " more thread" : " more threads",
                      " on CPUs of their own would end that (train.data.threads: ", wanted, ").");
}

}  // namespace muster::worker
