// From a client's spec to what the engine stores. Clients are not trusted: everything is checked
// here again. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "controller/model/events.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

struct CheckedSubmit {
  v1::JobSpec resolved;  // every default written out
  JobSettings settings;
  std::optional<ArrayRange> array;   // when the spec asks for one
  std::optional<ResumeWish> resume;  // likewise
};

// FAILED_PRECONDITION: another protocol version. INVALID_ARGUMENT: everything that is wrong with
// the spec, at once, or a request beyond its bounds. `checkpoint_root` is for specs that name no
// url.
absl::StatusOr<CheckedSubmit> CheckSubmit(const v1::SubmitRequest& request,
                                          const std::string& checkpoint_root);

// What the engine is told of a submit that was checked.
SubmitJob EventOf(const v1::SubmitRequest& request, CheckedSubmit checked);

// Both for a submit on a stream, which knows no dry runs; takes the spec out of the request.
absl::StatusOr<SubmitJob> CheckStreamed(v1::SubmitRequest& request,
                                        const std::string& checkpoint_root);

// A name or key from outside: at most so many printable ASCII characters without spaces. Otherwise
// INVALID_ARGUMENT, which names the field.
absl::Status CheckWord(absl::string_view field, absl::string_view word, size_t most);
inline constexpr size_t kMaxKeyBytes = 128;
inline constexpr size_t kMaxUserBytes = 64;

// The resolved spec of a stored job, with what was updated since. What an older Muster wrote and
// this one does not know is left out.
v1::JobSpec SpecOf(const JobSettings& settings);

}  // namespace muster::controller
