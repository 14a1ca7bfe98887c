#include "tests/worker/trainer/forked_run.h"

#include <memory>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "tests/worker/dist/forked_ranks.h"
#include "tests/worker/train/training_run.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/rank/rank_parts.h"
#include "worker/trainer/rank/rank_program.h"

namespace muster::testing {
namespace {

using namespace worker;  // NOLINT: a test helper about nothing else

CheckpointsOptions SavingOf(const ForkedRun& run, const RankParts& parts) {
  CheckpointsOptions options = TestCheckpoints(run.root, run.attempt, run.candidates);
  options.identity.data_fingerprint = parts.dataset->fingerprint();
  options.identity.teacher_fingerprint = parts.teacher_fingerprint;
  options.has_accuracy = parts.objective->has_accuracy();
  return options;
}

// What the parent wants to know of rank 0.
void Tell(FolderKeyValue& store, const FakePublisher& publisher, const Collectives& gang,
          const TrainResult& result) {
  std::string committed, results;
  for (const CheckpointNews& news : publisher.committed())
    absl::StrAppend(&committed, news.step, " ", news.path, " ", news.manifest_sha256, "\n");
  for (const auto& [name, value] : result.results)
    absl::StrAppend(&results, name, " ", absl::StrFormat("%.17g", value), "\n");
  store.Set("transport", gang.transport()).IgnoreError();
  store.Set("results", results).IgnoreError();
  store.Set("committed", committed).IgnoreError();
}

absl::Status RunRank(const ForkedRun& run, const std::shared_ptr<FolderKeyValue>& store, int rank) {
  ::signal(SIGPIPE, SIG_IGN);  // as muster-trainer does
  ConfigureTorch(run.spec);
  const int world = static_cast<int>(run.addresses.size());
  const RankPlace place = {at::kCPU, static_cast<uint32_t>(world), static_cast<uint32_t>(world)};
  MUSTER_ASSIGN_OR_RETURN(RankParts parts, BuildParts(run.spec, PosixFileSystem(), place));
  CollectivesOptions options = GangOptions(run.spec);
  options.rank = rank;
  options.world_size = world;
  options.advertise_address = run.addresses[static_cast<size_t>(rank)];
  options.timeout = absl::Minutes(1);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Gang> gang, Gang::Form(store, options));
  MUSTER_RETURN_IF_ERROR(JoinParts(run.spec, PosixFileSystem(), std::move(gang), parts));
  FakeRunHost host;
  host.requested = {.stop = true, .save = true};
  if (rank == world - 1) host.requested_after_step = run.stop_after;
  FakePublisher publisher;
  const Trainer trainer = parts.trainer();
  MUSTER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Checkpoints> checkpoints,
      Checkpoints::Create(trainer, {PosixFileSystem(), publisher, host}, SavingOf(run, parts)));
  MUSTER_ASSIGN_OR_RETURN(const TrainResult result, Train(trainer, *checkpoints, host));
  if (rank == 0) Tell(*store, publisher, *parts.gang, result);
  return result.stopped ? absl::CancelledError("stopped as asked") : absl::OkStatus();
}

std::string TextOf(const ForkedRanks& ranks, const std::string& key) {
  return ranks.store().Get(key, absl::ZeroDuration()).value_or("");
}

}  // namespace

ForkedOutcome RunForked(const ForkedRun& run) {
  const ForkedRanks::Body body = [&run](const std::shared_ptr<FolderKeyValue>& store, int rank) {
    return TorchGuard([&] { return RunRank(run, store, rank); });
  };
  ForkedRanks ranks(static_cast<int>(run.addresses.size()), body);
  ForkedOutcome outcome;
  for (size_t rank = 0; rank < run.addresses.size(); ++rank)
    outcome.codes.push_back(ranks.Wait(static_cast<int>(rank)));
  outcome.transport = TextOf(ranks, "transport");
  outcome.results = TextOf(ranks, "results");
  std::istringstream committed(TextOf(ranks, "committed"));
  CheckpointCandidate candidate;
  while (committed >> candidate.step >> candidate.path >> candidate.manifest_sha256)
    outcome.committed.insert(outcome.committed.begin(), candidate);
  return outcome;
}

}  // namespace muster::testing
