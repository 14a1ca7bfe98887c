// A Status that also says which of the protocol's failure classes it is (muster.v1.FailureClass, by
// name).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

inline constexpr absl::string_view kOutOfMemory = "OUT_OF_MEMORY";
inline constexpr absl::string_view kNonFinite = "NON_FINITE";
inline constexpr absl::string_view kDataError = "DATA_ERROR";
inline constexpr absl::string_view kCheckpointFailed = "CHECKPOINT_FAILED";
inline constexpr absl::string_view kCorruption = "CORRUPTION";
inline constexpr absl::string_view kApplication = "APPLICATION";
inline constexpr absl::string_view kStartFailed = "START_FAILED";
inline constexpr absl::string_view kPeerLost = "PEER_LOST";
inline constexpr absl::string_view kStorageUnavailable = "STORAGE_UNAVAILABLE";

// The status with its class, and with `context` before its message unless that is empty. OK stays
// OK.
absl::Status Classify(absl::Status status, absl::string_view failure_class,
                      absl::string_view context = "");

// A failure to read data: what may pass (a server that does not answer) is STORAGE_UNAVAILABLE,
// what is this machine's or this account's affair has no class of its own, the rest is DATA_ERROR,
// which no restart would mend.
absl::Status ClassifyData(absl::Status status, absl::string_view context = "");

// The class given by Classify; APPLICATION when none was.
std::string FailureClassOf(const absl::Status& status);

// Whether Classify gave it one.
bool HasFailureClass(const absl::Status& status);

// A failure as one text, for telling other ranks, and back. Code, class and message survive.
std::string FailureToText(const absl::Status& status);
absl::Status FailureFromText(absl::string_view text);

}  // namespace muster::worker
