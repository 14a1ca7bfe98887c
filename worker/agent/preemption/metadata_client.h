// HTTP to a cloud's metadata service: no proxy, no redirects, short answers, and a deadline for
// each. Used by one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/object_store/http_client.h"

namespace muster::worker {

// An answer that is longer is refused: those that we ask for have some hundred bytes.
inline constexpr uint64_t kMaxMetadataBytes = 256 << 10;
// For a service inside the machine, which answers in milliseconds.
inline constexpr absl::Duration kMetadataDeadline = absl::Seconds(2);

struct MetadataQuestion {
  std::string method = "GET";
  std::string target;  // path and query, with the slash in front
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // of PUT and POST
  absl::Duration deadline = kMetadataDeadline;
};

class MetadataClient {
 public:
  // `base` has no slash at its end. `stop`, which outlives it, ends a question within about a
  // second.
  MetadataClient(absl::string_view base, const HttpStop& stop);

  // Any answer, whatever its code. UNAVAILABLE, DEADLINE_EXCEEDED: none; OUT_OF_RANGE: it is longer
  // than kMaxMetadataBytes; CANCELLED: by the stop.
  absl::StatusOr<HttpResponse> Ask(const MetadataQuestion& question);

 private:
  const std::string base_;
  const HttpStop& stop_;
  HttpClient http_;
};

// What an answer with an unexpected code says: UNAVAILABLE, or UNAUTHENTICATED of 401 and 403.
absl::Status StatusOfAnswer(absl::string_view what, const HttpResponse& answer);

}  // namespace muster::worker
