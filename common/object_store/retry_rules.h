// What an answer of a server means, which failures may pass, and how long to wait before the next
// attempt. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

struct RetryPolicy {
  absl::Duration first_delay = absl::Milliseconds(100);
  absl::Duration max_delay = absl::Seconds(10);
  absl::Duration request_deadline = absl::Minutes(1);  // of one attempt
  // Of all attempts and the waits between. A read that an attempt brought a part of begins anew
  // behind it. Less than a rank may be silent while it starts (musterd's --start-timeout), so that
  // it fails as who lacks its data, and not as who does not start.
  absl::Duration operation_deadline = absl::Minutes(4);
  // The same as long as nothing has ever answered: who waits may have mistyped the address.
  absl::Duration unanswered_deadline = absl::InfiniteDuration();
};

// 429, 500, 502, 503, 504, 408: the same request may succeed later.
bool MayPass(int http_code);

// UNAVAILABLE and DEADLINE_EXCEEDED, as HttpClient gives them.
bool MayPass(const absl::Status& transport_error);

// Before attempt `attempt` (1: the first repetition): doubled each time up to the longest, of that
// a random half to the whole by `seed`; never less than the server asked for, never more than the
// longest.
absl::Duration RetryDelay(const RetryPolicy& policy, int attempt, absl::Duration asked_for,
                          uint64_t seed);

// 401 and 403 PERMISSION_DENIED, 404 and 410 NOT_FOUND, 412 FAILED_PRECONDITION, 416 OUT_OF_RANGE,
// those that may pass UNAVAILABLE, 501 UNIMPLEMENTED, others FAILED_PRECONDITION.
absl::StatusCode CodeOfHttp(int http_code);

// What the one who reads an error should try next, given the server's word for it ("" if none).
std::string WayOut(int http_code, absl::string_view server_code, bool is_signed);

}  // namespace muster
