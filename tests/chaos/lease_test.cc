// The one promise that two programs keep together without speaking: when the controller gives a
// worker's ranks to somebody else, that worker publishes nothing any more. The agent's lease and
// the controller's rule, over networks that lose and delay in either direction.
#include "worker/agent/connection/lease.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"
#include "controller/model/draft.h"
#include "controller/policy/health/liveness_rules.h"

namespace muster::testing {
namespace {

namespace mc = ::muster::controller;

constexpr absl::Duration kHeartbeat = absl::Seconds(3);
constexpr absl::Duration kLost = absl::Seconds(15);
constexpr mc::LivenessSettings kSettings = {.suspect_after = absl::Seconds(9),
                                            .lost_after = kLost,
                                            .startup_grace = absl::ZeroDuration(),
                                            .start_timeout = absl::Minutes(5),
                                            .hears_since = absl::ZeroDuration()};

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(SplitMix64(seed)) {}
  uint64_t Below(uint64_t count) { return SplitMix64(state_++) % count; }

 private:
  uint64_t state_;
};

// A heartbeat's two arrivals; never for one that is lost.
struct Beat {
  absl::Duration sent, seen = absl::InfiniteDuration(), acked = absl::InfiniteDuration();
};

std::vector<Beat> MakeBeats(Dice& dice) {
  std::vector<Beat> beats;
  for (uint64_t i = 0; i < 20; ++i) {
    Beat beat{.sent = kHeartbeat * i};
    if (dice.Below(3) != 0) {
      beat.seen = beat.sent + absl::Milliseconds(dice.Below(8000));
      if (dice.Below(3) != 0) beat.acked = beat.seen + absl::Milliseconds(dice.Below(20000));
    }
    beats.push_back(beat);
  }
  return beats;
}

TEST(LeaseAndLiveness, AWorkerThatIsGivenUpPublishesNothing) {
  int given_up = 0, could_publish = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    std::vector<Beat> beats = MakeBeats(dice);
    worker::Lease lease;
    lease.Begin(kLost);
    mc::Snapshot base;
    mc::Draft first(base);
    first.AddWorker({.name = "w"});
    std::shared_ptr<const mc::Snapshot> model = first.Finish();
    bool lost = false;
    for (absl::Duration now; now < absl::Minutes(2); now += absl::Milliseconds(250)) {
      const auto happens_now = [&](absl::Duration at) {
        return at > now - absl::Milliseconds(250) && at <= now;
      };
      for (size_t i = 0; i < beats.size(); ++i) {
        if (happens_now(beats[i].sent)) lease.Sent(i + 1, beats[i].sent);
        // Who was given up is answered no more: its stream is closed.
        if (happens_now(beats[i].seen) && lost) beats[i].acked = absl::InfiniteDuration();
        if (happens_now(beats[i].seen) && !lost) {
          mc::Draft draft(*model);
          draft.EditPulse(1).last_seen_at = beats[i].seen;
          model = draft.Finish();
        }
        if (happens_now(beats[i].acked)) lease.Acknowledged(i + 1);
      }
      for (const mc::Finding& event : mc::FindSilent(*model, kSettings, now)) {
        const auto* silent = std::get_if<mc::WorkerSilent>(&event);
        if (silent != nullptr && silent->presence == mc::Presence::kLost) lost = true;
      }
      if (lost) {
        ASSERT_FALSE(lease.Holds(now)) << "seed " << seed << " at " << now;
        ASSERT_FALSE(lease.AllowsPublish(now));
      } else if (lease.AllowsPublish(now)) {
        ++could_publish;
      }
    }
    given_up += lost ? 1 : 0;
  }
  EXPECT_GT(given_up, 100) << "the networks were too kind to show anything";
  EXPECT_GT(could_publish, 100);
}

}  // namespace
}  // namespace muster::testing
