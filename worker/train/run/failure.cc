#include "worker/train/run/failure.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
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

absl::Status ClassifyData(absl::Status status, absl::string_view context) {
  absl::string_view failure_class = kDataError;
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    failure_class = kStorageUnavailable;
  } else if (absl::IsPermissionDenied(status) || absl::IsResourceExhausted(status)) {
    failure_class = kApplication;
  }
  return Classify(std::move(status), failure_class, context);
}

std::string FailureClassOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  return payload.has_value() ? std::string(*payload) : std::string(kApplication);
}

bool HasFailureClass(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

std::string FailureToText(const absl::Status& status) {
  return absl::StrCat(FailureClassOf(status), "\n", static_cast<int>(status.code()), "\n",
                      status.message());
}

absl::Status FailureFromText(absl::string_view text) {
  const size_t first = text.find('\n');
  const size_t second = text.find('\n', first + 1);
  int code = static_cast<int>(absl::StatusCode::kInternal);
  (void)absl::SimpleAtoi(text.substr(first + 1, second - first - 1), &code);
  return Classify(absl::Status(static_cast<absl::StatusCode>(code), text.substr(second + 1)),
                  text.substr(0, first));
}

}  // namespace muster::worker
