#include "worker/dist/process_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#ifdef MUSTER_WITH_CUDA
#include <ATen/ops/ones.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "worker/dist/base/host_layout.h"
#include "worker/dist/c10d_store.h"
#include "worker/dist/peer_watch.h"
#include "worker/dist/shared_memory/shared_memory_backend.h"
#include "worker/dist/two_level_backend.h"
#include "worker/dist/watched_device.h"
#include "worker/dist/watched_gloo.h"

namespace muster::worker {
namespace {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

c10::intrusive_ptr<c10d::Store> StoreOf(const std::shared_ptr<KeyValue>& key_value,
                                        const CollectivesOptions& options,
                                        absl::string_view sub_prefix = "") {
  return c10::make_intrusive<C10dStore>(key_value, absl::StrCat(options.prefix, sub_prefix),
                                        absl::ToChronoMilliseconds(options.timeout));
}

// Some ranks of the gang, or all.
struct RankSubset {
  int rank = 0;  // this one among them
  int size = 1;
  std::string sub_prefix;  // of their keys in the store
  std::vector<int> names;  // what each is called in messages; empty: its number
};

std::unique_ptr<PeerWatch> WatchPeers(KeyValue& store, const CollectivesOptions& options,
                                      const RankSubset& ranks) {
  auto watch = PeerWatch::Join(store, {{.rank = ranks.rank,
                                        .world_size = ranks.size,
                                        .address = options.advertise_address,
                                        .timeout = options.timeout,
                                        .prefix = absl::StrCat(options.prefix, ranks.sub_prefix)},
                                       ranks.names});
  TORCH_CHECK_WITH(DistBackendError, watch.ok(),
                   "the ranks did not connect: ", watch.status().ToString(),
                   " (muster-worker --advertise-address says where a worker's ranks are reached)");
  return *std::move(watch);
}

BackendPtr MakeGloo(const std::shared_ptr<KeyValue>& key_value, const CollectivesOptions& options,
                    const RankSubset& ranks) {
  auto watch = WatchPeers(*key_value, options, ranks);
  auto gloo = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(options.timeout));
  gloo->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(options.advertise_address));
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
      StoreOf(key_value, options, ranks.sub_prefix), ranks.rank, ranks.size, gloo);
  backend->setSequenceNumberForGroup();
  return MakeWatchedGloo(std::move(backend), std::move(watch));
}

// The ranks of this place in their hosts, one of each.
RankSubset LaneOf(const HostLayout& layout, int host, int place) {
  RankSubset lane;
  lane.rank = host;
  lane.size = static_cast<int>(layout.hosts.size());
  lane.sub_prefix = absl::StrCat("lane", place, "/");
  for (const std::vector<int>& ranks : layout.hosts) lane.names.push_back(ranks[place]);
  return lane;
}

// All ranks of the gang. FAILED_PRECONDITION: they cannot share memory.
absl::StatusOr<ProcessGroup> MakeSharedMemory(KeyValue& store, const CollectivesOptions& options) {
  auto gang = SharedMemoryGang::Join(store, {.rank = options.rank,
                                             .world_size = options.world_size,
                                             .timeout = options.timeout,
                                             .prefix = options.prefix});
  if (!absl::IsFailedPrecondition(gang.status())) ThrowUnlessOk(gang.status());
  MUSTER_RETURN_IF_ERROR(gang.status());
  return ProcessGroup{MakeSharedMemoryBackend(*std::move(gang)), kSharedMemoryName,
                      /*in_place=*/true};
}

// OK where all ranks say so.
absl::Status Vote(KeyValue& store, const CollectivesOptions& options, const absl::Status& mine) {
  const auto key = [&](int rank) { return absl::StrCat(options.prefix, "two-level/", rank); };
  ThrowUnlessOk(store.Set(key(options.rank), std::string(mine.message())));
  for (int rank = 0; rank < options.world_size; ++rank) {
    const absl::StatusOr<std::string> fault = store.Get(key(rank), options.timeout);
    ThrowUnlessOk(fault.status());
    if (!fault->empty())
      return absl::FailedPreconditionError(absl::StrCat("the host of rank ", rank, ": ", *fault));
  }
  return absl::OkStatus();
}

// FAILED_PRECONDITION, on all ranks: those of some host cannot share memory.
absl::StatusOr<ProcessGroup> MakeTwoLevel(const std::shared_ptr<KeyValue>& key_value,
                                          const CollectivesOptions& options, HostLayout layout) {
  const int host = layout.HostOf(options.rank);
  const std::vector<int>& ranks = layout.hosts[host];
  const int place =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), options.rank) - ranks.begin());
  auto gang =
      SharedMemoryGang::Join(*key_value, {.rank = place,
                                          .world_size = static_cast<int>(ranks.size()),
                                          .timeout = options.timeout,
                                          .prefix = absl::StrCat(options.prefix, "host", host, "/"),
                                          .names = ranks});
  if (!absl::IsFailedPrecondition(gang.status())) ThrowUnlessOk(gang.status());
  MUSTER_RETURN_IF_ERROR(Vote(*key_value, options, gang.status()));
  TwoLevelParts parts;
  parts.rank = options.rank;
  parts.world_size = options.world_size;
  parts.host = *std::move(gang);
  if (place < static_cast<int>(layout.FewestRanks()))
    parts.lane = MakeGloo(key_value, options, LaneOf(layout, host, place));
  const std::string transport = absl::StrCat(kTwoLevelName, " ", layout.Text());
  parts.layout = std::move(layout);
  return ProcessGroup{MakeTwoLevelBackend(std::move(parts)), transport, /*in_place=*/true};
}

HostLayout HostsOf(KeyValue& store, const CollectivesOptions& options) {
  absl::StatusOr<HostLayout> layout = FindHosts(store, {.rank = options.rank,
                                                        .world_size = options.world_size,
                                                        .address = options.advertise_address,
                                                        .timeout = options.timeout,
                                                        .prefix = options.prefix});
  const bool other_version = absl::IsFailedPrecondition(layout.status());
  TORCH_CHECK_WITH(DistStoreError, !other_version, std::string(layout.status().message()));
  ThrowUnlessOk(layout.status());
  return *std::move(layout);
}

// The fastest that the hosts allow. FAILED_PRECONDITION: no better one than Gloo.
absl::StatusOr<ProcessGroup> MakeFastest(const std::shared_ptr<KeyValue>& key_value,
                                         const CollectivesOptions& options, HostLayout layout) {
  if (layout.hosts.size() == 1) return MakeSharedMemory(*key_value, options);
  if (layout.MostRanks() == 1) return absl::FailedPreconditionError("no two ranks are on one host");
  return MakeTwoLevel(key_value, options, std::move(layout));
}

#ifdef MUSTER_WITH_CUDA
// The ranks of another attempt, or a network that carries nothing, are to show before the first
// step.
void CheckSum(WatchedDevice& backend, at::Device device) {
  std::vector<at::Tensor> ones = {at::ones({1}, at::TensorOptions(at::kFloat).device(device))};
  backend.allreduce(ones, c10d::AllreduceOptions())->wait();
  const auto ranks = static_cast<int>(ones.front().item<float>());
  backend.Check();
  TORCH_CHECK_WITH(DistBackendError, ranks == backend.getSize(), "NCCL: a sum over ",
                   backend.getSize(), " ranks had ", ranks);
}

ProcessGroup MakeNccl(const std::shared_ptr<KeyValue>& key_value, const CollectivesOptions& options,
                      const HostLayout& layout) {
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(options.gpu));
  auto watch = WatchPeers(*key_value, options, {.rank = options.rank, .size = options.world_size});
  auto settings = c10d::ProcessGroupNCCL::Options::create();
  settings->timeout = absl::ToChronoMilliseconds(options.timeout);
  auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(StoreOf(key_value, options), options.rank,
                                                          options.world_size, settings);
  nccl->setSequenceNumberForGroup();
  // Now, and not within the first step, whose time is told.
  nccl->eagerConnectSingleDevice(device);
  auto watched = c10::make_intrusive<WatchedDevice>(std::move(nccl), std::move(watch));
  CheckSum(*watched, device);
  const std::string transport =
      layout.hosts.size() == 1 ? "nccl" : absl::StrCat("nccl ", layout.Text());
  return ProcessGroup{watched, transport, /*in_place=*/false, /*averages=*/true, watched};
}
#endif

absl::StatusOr<ProcessGroup> MakeAny(const std::shared_ptr<KeyValue>& key_value,
                                     const CollectivesOptions& options) {
  // Also where nothing follows from it: ranks of another version are refused.
  HostLayout layout = HostsOf(*key_value, options);
  if (options.gpu >= 0) {
#ifdef MUSTER_WITH_CUDA
    return MakeNccl(key_value, options, layout);
#else
    TORCH_CHECK_WITH(NotImplementedError, false, "this muster-trainer was built without CUDA");
#endif
  }
  if (options.transport == Transport::kSharedMemory) {
    absl::StatusOr<ProcessGroup> made = MakeSharedMemory(*key_value, options);
    if (made.ok()) return made;
    return absl::FailedPreconditionError(
        absl::StrCat("train.parallel.transport is shared_memory, but: ", made.status().message()));
  }
  if (options.transport == Transport::kAuto) {
    absl::StatusOr<ProcessGroup> made = MakeFastest(key_value, options, std::move(layout));
    if (made.ok()) return made;
    Log(LogLevel::kInfo, "shared_memory_unavailable",
        {{"transport", "gloo"}, {"reason", made.status().message()}});
  }
  return ProcessGroup{
      MakeGloo(key_value, options, {.rank = options.rank, .size = options.world_size}), "gloo"};
}

}  // namespace

bool ProcessGroup::IsAlone() const {
  TORCH_CHECK_WITH(DistBackendError, !ended, "this rank has left its gang");
  return backend == nullptr;
}

void ProcessGroup::Broadcast(const at::Tensor& tensor, int root) const {
  if (IsAlone()) return;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  backend->broadcast(tensors, options)->wait();
}

absl::StatusOr<ProcessGroup> MakeProcessGroup(const std::shared_ptr<KeyValue>& key_value,
                                              const CollectivesOptions& options) {
  if (options.world_size == 1) return ProcessGroup{.backend = nullptr, .transport = "local"};
  MUSTER_ASSIGN_OR_RETURN(ProcessGroup made, MakeAny(key_value, options));
  made.backend->setGroupUid(options.prefix.empty() ? "gang" : options.prefix);
  return made;
}

}  // namespace muster::worker
