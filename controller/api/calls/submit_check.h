// From a client's spec to what the engine stores. Clients are not trusted: everything is checked
// here again. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/model/types/events.h"
#include "controller/model/types/explanation_types.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

// Workers that are not there yet and would be asked for; empty functions: there are none such.
struct WorkersToCome {
  std::function<bool(const JobNeeds&)> could_hold;             // the whole job
  std::function<std::vector<Blocker>(const JobNeeds&)> hints;  // to people, why it waits
};

// A job that they could hold is not refused for want of workers: it waits.
void LetWaitFor(const WorkersToCome& workers, SubmitJob& event);

// What the engine is told of the submit, with `spec` in place of the request's own, which may be
// the same object: every default is written into it. `checkpoint_root` is for specs that name no
// url. FAILED_PRECONDITION: another protocol version. INVALID_ARGUMENT: everything that is wrong
// with the spec, at once, or a request beyond its bounds.
absl::StatusOr<SubmitJob> CheckSubmit(const v1::SubmitRequest& request, v1::JobSpec& spec,
                                      const std::string& checkpoint_root);

// The same for a submit on a stream, which knows no dry runs. It resolves the request's own spec,
// so that a stream's messages are filled again without new memory.
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
