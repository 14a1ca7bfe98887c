#include "worker/trainer/rank/rank_program.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/ckpt/checkpoint_root.h"
#include "common/fs/file_system.h"
#include "worker/dist/gang.h"
#include "worker/dist/nccl_environment.h"
#include "worker/train/artifacts/confusion_report.h"
#include "worker/train/artifacts/reconstruction_sheet.h"
#include "worker/train/artifacts/tensorboard_writer.h"
#include "worker/train/checkpoints.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/rank/foreign_code.h"
#include "worker/trainer/rank/link_adapters.h"
#include "worker/trainer/rank/rank_parts.h"
#include "worker/trainer/rank/run_record.h"

namespace muster::worker {
namespace {

// For the transports "never" is a number, too; they count it in nanoseconds from now, which hold
// three centuries.
constexpr absl::Duration kNever = absl::Hours(24 * 3650);

// How much longer than restart.progress_timeout a rank waits for its peers. The controller, which
// can name the rank that stands still, hears of the last step a heartbeat later than the ranks;
// if they gave up first, a hang would be taken for a lost peer.
absl::Duration MarginForTheController(absl::Duration progress_timeout) {
  return progress_timeout / 4 + absl::Seconds(10);
}

at::Device DeviceOf(const Launch& launch) {
  return launch.gpu < 0 ? at::Device(at::kCPU)
                        : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(launch.gpu));
}

Transport TransportOf(trainer_spec::Transport transport) {
  switch (transport) {
    case trainer_spec::Transport::kGloo:
      return Transport::kGloo;
    case trainer_spec::Transport::kSharedMemory:
      return Transport::kSharedMemory;
    default:
      return Transport::kAuto;
  }
}

Compression CompressionOf(trainer_spec::Compression compression) {
  switch (compression) {
    case trainer_spec::Compression::kFp16:
      return Compression::kFp16;
    case trainer_spec::Compression::kBf16:
      return Compression::kBf16;
    default:
      return Compression::kNone;
  }
}

absl::StatusOr<std::unique_ptr<Gang>> FormGang(const Launch& launch,
                                               const trainer_spec::JobSpec& spec,
                                               LinkClient& link) {
  CollectivesOptions options = GangOptions(spec);
  options.rank = static_cast<int>(launch.rank);
  options.world_size = static_cast<int>(launch.world_size);
  options.advertise_address = launch.advertise_address;
  options.gpu = launch.gpu;
  // The store is scoped by job, attempt and generation already; the names say so too, for whoever
  // reads them.
  options.prefix = absl::StrCat("a", launch.attempt, ".g", launch.generation, "/");
  auto gang = Gang::Form(std::make_shared<LinkKeyValue>(link), options);
  if (!gang.ok()) return Classify(gang.status(), kStartFailed);
  return gang;
}

CheckpointsOptions CheckpointsFor(const Launch& launch, RunIdentity identity) {
  CheckpointsOptions options;
  options.root = launch.checkpoint_root;
  options.holder = {.path = launch.root, .identity = launch.root_identity};
  options.job_id = launch.job_id;
  options.job_name = launch.job_name;
  options.attempt = launch.attempt;
  options.generation = launch.generation;
  std::random_device random;
  options.nonce_seed = (uint64_t{random()} << 32) | random();
  for (const ResumeCandidate& candidate : launch.resume) {
    options.candidates.push_back({candidate.path, candidate.step, candidate.manifest_sha256,
                                  candidate.job_id, candidate.job_name});
  }
  options.identity = std::move(identity);
  return options;
}

std::string ArtifactsFolder(const Launch& launch) {
  return absl::StrCat(launch.checkpoint_root, "/artifacts");
}

absl::StatusOr<std::vector<std::unique_ptr<Artifact>>> BuildArtifacts(
    const Launch& launch, const trainer_spec::JobSpec& spec, FileSystem& fs, Model& model,
    const Loader& loader, at::Device device) {
  std::vector<std::unique_ptr<Artifact>> artifacts;
  if (launch.rank != 0) return artifacts;
  const std::string folder = ArtifactsFolder(launch);
  if (spec.train.artifacts.confusion) artifacts.push_back(MakeConfusionFiles(fs, folder));
  const uint64_t every = spec.train.artifacts.reconstructions_every_steps;
  if (every > 0 && spec.train.model.mae.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(
        std::unique_ptr<Artifact> sheets,
        MakeReconstructionSheets(fs, model, loader, device,
                                 {.folder = folder,
                                  .every_steps = static_cast<int64_t>(every),
                                  .reconstruction = ReconstructionOf(*spec.train.model.mae)}));
    artifacts.push_back(std::move(sheets));
  }
  return artifacts;
}

absl::StatusOr<TrainResult> Compose(const Launch& launch, const trainer_spec::JobSpec& spec,
                                    LinkClient& link) {
  FileSystem& fs = PosixFileSystem();
  // Before anything is made in what may be another folder.
  MUSTER_RETURN_IF_ERROR(Classify(
      CheckRoot(fs, {.path = launch.root, .identity = launch.root_identity}), kStorageUnavailable));
  LinkHost agent(link);
  TensorBoardWriter events(fs, agent, ArtifactsFolder(launch), launch.attempt);
  const bool with_events = launch.rank == 0 && spec.train.artifacts.tensorboard;
  RunHost& host = with_events ? static_cast<RunHost&>(events) : agent;
  LinkPublisher publisher(link);
  const at::Device device = DeviceOf(launch);

  // Data first: what is missing here shows before anybody waits for anybody.
  host.Progress("load", 0, 0, 0);
  MUSTER_ASSIGN_OR_RETURN(RankParts parts,
                          BuildParts(spec, fs, {device, launch.world_size, launch.local_world_size},
                                     {.sign_of_life = [&host] { host.KeepAlive(); },
                                      .goes_on = [&host] { return !host.requested_stop().stop; }}));
  const Recipe& recipe = parts.recipe;
  if (recipe.precision == Precision::kTf32 && device.is_cpu())
    Log(LogLevel::kInfo, "tf32_is_fp32_on_the_cpu");
  Log(LogLevel::kInfo, "model_ready",
      {{"parameters", parts.model->ParameterCount()},
       {"train_samples", parts.dataset->size(Split::kTrain)},
       {"total_steps", recipe.total_steps}});

  host.Progress("rendezvous", 0, recipe.total_steps, 0);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Gang> gang, FormGang(launch, spec, link));
  Log(LogLevel::kInfo, "gang_ready",
      {{"ranks", gang->world_size()}, {"transport", gang->transport()}});
  MUSTER_RETURN_IF_ERROR(CheckSameData(*parts.dataset, *gang, device));
  MUSTER_RETURN_IF_ERROR(JoinParts(spec, fs, std::move(gang), parts));
  RunIdentity identity = IdentityOf(launch, spec, *parts.dataset, *parts.gang, device);
  identity.teacher_fingerprint = parts.teacher_fingerprint;
  CheckpointsOptions saving = CheckpointsFor(launch, std::move(identity));
  saving.has_accuracy = parts.objective->has_accuracy();
  const Trainer trainer = parts.trainer();
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoints> checkpoints,
                          Checkpoints::Create(trainer, {fs, publisher, host}, std::move(saving)));
  // Whatever way this ends, the saver's thread must come back from its waits before it is joined.
  const auto cancel_waits = absl::MakeCleanup([&link] { link.Cancel(); });
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<Artifact>> made,
                          BuildArtifacts(launch, spec, fs, *parts.model, *parts.loader, device));
  std::vector<Artifact*> artifacts;
  for (const auto& artifact : made) artifacts.push_back(artifact.get());
  return Train(trainer, *checkpoints, host, artifacts);
}

}  // namespace

CollectivesOptions GangOptions(const trainer_spec::JobSpec& spec) {
  CollectivesOptions options;
  options.transport = TransportOf(spec.train.parallel.transport);
  options.compression = CompressionOf(spec.train.parallel.compression);
  options.static_graph = spec.train.parallel.static_graph;
  const absl::Duration limit = spec.restart.progress_timeout;
  options.timeout = limit == absl::ZeroDuration() ? kNever : limit + MarginForTheController(limit);
  return options;
}

void SetEnvironment(const Launch& launch, const trainer_spec::JobSpec& spec) {
  // Without it cuBLAS has no fixed order of sums.
  if (spec.train.deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  if (launch.gpu >= 0 && launch.world_size > 1) SetNcclEnvironment(launch.advertise_address);
}

void ConfigureTorch(const trainer_spec::JobSpec& spec) {
  at::set_num_threads(static_cast<int>(std::max<uint32_t>(1, spec.train.threads_per_rank)));
  at::set_num_interop_threads(1);
  // The quickest algorithm for each shape, by trial: not the same one in each process.
  at::globalContext().setBenchmarkCuDNN(!spec.train.deterministic);
  // Of CUDA alone, and said for all precisions: torch's own default lets convolutions use tf32.
  const bool tf32 = spec.train.precision == trainer_spec::Precision::kTf32;
  at::globalContext().setAllowTF32CuBLAS(tf32);
  at::globalContext().setAllowTF32CuDNN(tf32);
  if (!spec.train.deterministic) return;
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setDeterministicMkldnn(true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

absl::StatusOr<TrainResult> RunRank(const Launch& launch, const trainer_spec::JobSpec& spec,
                                    LinkClient& link) {
  const absl::Status allowed =
      MayRunForeignCode(spec, launch.allow_plugins,
                        "its muster-worker runs without --allow-commands, and so runs none");
  if (!allowed.ok()) return Classify(allowed, kStartFailed);
  return TorchGuardOr([&] { return Compose(launch, spec, link); });
}

}  // namespace muster::worker
