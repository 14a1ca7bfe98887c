// What a policy may know besides the snapshot: the time and its settings. Plain data.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "controller/policy/health/quarantine_rules.h"
#include "controller/policy/limits/fair_share.h"
#include "controller/policy/placement/elastic.h"

namespace muster::controller {

struct ScheduleSettings {
  absl::Duration use_half_life = kUseHalfLife;
  // One plan holds at most so many gangs; the rest follows in the next round. Bounds a transaction.
  uint32_t max_placements = 2000;
  // Jobs that one round may consider. The next one considers the first half of them again, and then
  // those that no round has come to yet.
  uint32_t max_considered = 100'000;
  // Tries of one round to fit jobs into slots that are kept for others, until those start.
  uint32_t max_backfill_tries = 1000;
  // Ends of running jobs that are followed to find out when a job with a reservation could start.
  uint32_t max_releases = 5000;
  // Slots are kept for a job in back-off when that ends within this time; before that they would
  // only stand idle. A gang needs as long to save and leave.
  absl::Duration keep_for_back_off = absl::Seconds(30);
  // Waiting jobs that get a reason, from the front of the queue; as many again that admission
  // blocks, by id. For the others `explain` works it out.
  uint32_t max_messages = 100;
  // Workers on which failures began within this time come last.
  absl::Duration incident_window = kIncidentWindow;
  ElasticSettings elastic = {};
  // A gang is placed only where its data have been looked at. False: as if they had been, for a
  // forecast.
  bool awaits_data_looks = true;
};

struct ScheduleContext {
  absl::Duration now;  // since boot; Snapshot::LedgerTime(now) is ledger time
  absl::Time wall;  // the same moment by the wall clock: for begin times, deadlines, reservations
  ScheduleSettings settings = {};
};

}  // namespace muster::controller
