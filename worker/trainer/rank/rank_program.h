// One rank from its Launch to its result: builds the parts, joins the gang, trains.
#pragma once

#include "absl/status/statusor.h"
#include "trainer_spec/job_spec.h"
#include "worker/dist/gang.h"
#include "worker/link/launch.h"
#include "worker/train/loop.h"
#include "worker/trainer/rank/link_client.h"

namespace muster::worker {

// Sets the variables that libraries read when they are first used. Call before there is a second
// thread.
void SetEnvironment(const Launch& launch, const trainer_spec::JobSpec& spec);

// Process-wide settings that must stand before torch computes or starts a thread: numbers of
// threads, determinism.
void ConfigureTorch(const trainer_spec::JobSpec& spec);

// How the spec's gang is joined, but for what a rank is told of itself.
CollectivesOptions GangOptions(const trainer_spec::JobSpec& spec);

// Call after ConfigureTorch. Fails with a status that carries its failure class
// (train/run/failure.h); nothing is thrown.
absl::StatusOr<TrainResult> RunRank(const Launch& launch, const trainer_spec::JobSpec& spec,
                                    LinkClient& link);

}  // namespace muster::worker
