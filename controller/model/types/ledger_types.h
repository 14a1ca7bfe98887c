// The goodput ledger's data: what each slot-second that a job held was good for.
//
// A slot-time is an absl::Duration that counts one second for each slot held for a second: exact
// (whole nanoseconds), and wide enough for any cluster. Ledger times are the controller's own
// course of time: wall clock when the first controller began, never going back, and running with
// the clock since boot in between (Snapshot::ledger_origin).
#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::controller {

// Values are stored; they never change their meaning.
enum class TimeLabel : uint8_t {
  kStart = 0,       // placed, until the process says what it does
  kRendezvous = 1,  // meeting the other ranks
  kLoad = 2,        // data, model, checkpoint
  kProductive = 3,  // steps that nobody had done before, and evaluations
  kSaveStall = 4,   // the loop waits for a checkpoint
  kRecompute = 5,   // steps that an earlier attempt had done
  kHang = 6,        // from the last progress until the standstill was noticed
  kIdle = 7,        // nothing left to do, waiting for the others
  kDrain = 8,       // asked to leave, until the slots are free again
};
inline constexpr int kTimeLabelCount = 9;

absl::string_view TimeLabelName(TimeLabel label);  // "save_stall"

// Slot-time by label.
struct LabelledTime {
  std::array<absl::Duration, kTimeLabelCount> of;

  absl::Duration& operator[](TimeLabel label) { return of[static_cast<int>(label)]; }
  absl::Duration operator[](TimeLabel label) const { return of[static_cast<int>(label)]; }
  absl::Duration total() const {
    absl::Duration sum;
    for (const absl::Duration part : of) sum += part;
    return sum;
  }
  LabelledTime& operator+=(const LabelledTime& other) {
    for (int i = 0; i < kTimeLabelCount; ++i) of[i] += other.of[i];
    return *this;
  }
  bool operator==(const LabelledTime&) const = default;
};

// One job's, over all its attempts. Kept by model/ledger_rules; durable with the job's row.
struct JobLedger {
  LabelledTime times;                       // all that was held up to `until`
  absl::Time until = absl::InfinitePast();  // ledger time; what is held now counts from here
  absl::Duration queued;                    // plain time in PENDING, up to `until`
  TimeLabel phase = TimeLabel::kStart;      // what the live attempt's ranks do, as rank 0 says
  int64_t step = 0;                         // of the live attempt
  int64_t highest_step = 0;                 // of all attempts
  int64_t repeats_until = 0;                // the live attempt's steps up to here were done before
  // What of `times` was held since the last progress, under the label that it would keep.
  absl::Duration unconfirmed;
  TimeLabel unconfirmed_label = TimeLabel::kProductive;
  // What is durable and will never get another label: for counters, which must not go back.
  LabelledTime settled;
  absl::Duration settled_queued;
};

}  // namespace muster::controller
