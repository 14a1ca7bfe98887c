#include "worker/train/failure.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

constexpr char kPayload[] = "muster/failure-class";

}  // namespace

absl::Status Classify(absl::Status status, absl::string_view failure_class,
                      absl::string_view context) {
  if (status.ok()) return status;
  absl::Status classified(status.code(), context.empty()
                                             ? std::string(status.message())
                                             : absl::StrCat(context, ": ", status.message()));
  classified.SetPayload(kPayload, absl::Cord(failure_class));
  return classified;
}

std::string FailureClassOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  return payload.has_value() ? std::string(*payload) : std::string(kApplication);
}

}  // namespace muster::worker
