#include "worker/agent/gang/gang_start.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/gang/port_holder.h"

namespace muster::worker {
namespace {

constexpr char kFactsKey[] = "muster/gang";
// No rank process exists yet, so that no operation of a rank has a number.
constexpr uint64_t kLineId = 1;

bool HasRankZero(const v1::StartRanks& start) {
  for (const v1::StartRanks::Rank& rank : start.ranks()) {
    if (rank.rank() == 0) return true;
  }
  return false;
}

}  // namespace

void GangStarts::Begin(const v1::StartRanks& start, SpecSettings settings) {
  const RankKey key = MakeRankKey(start.fence(), start.ranks(0).rank());
  GangStart& gang = waiting_[key];
  gang.start = start;
  gang.settings = std::move(settings);
  const CommandSettings& command = *gang.settings.command;
  const bool is_here = command.upload.empty() && command.image.empty();
  is_here ? Agree(key) : callbacks_.fetch(key, gang.start.fence(), command);
}

void GangStarts::OnFetched(const RankKey& key, const absl::Status& status) {
  if (!waiting_.contains(key)) return;
  status.ok() ? Agree(key) : Finish(key, status);
}

void GangStarts::Agree(const RankKey& key) {
  GangStart& gang = waiting_.at(key);
  if (!HasRankZero(gang.start)) {
    return callbacks_.request(gang.start.fence(), key.rank,
                              {.id = kLineId,
                               .op = StoreLine::Op::kGet,
                               .keys = {kFactsKey},
                               .timeout_ms = absl::ToInt64Milliseconds(kFactsPatience)});
  }
  absl::StatusOr<HeldPort> held = HoldPort();
  if (!held.ok()) return Finish(key, held.status());
  gang.held_port = std::move(held->socket);
  gang.facts.master_address = advertise_address_;
  gang.facts.master_port = held->port;
  // A first attempt has nothing to resume from, and starts at once.
  const bool may_resume = gang.start.fence().attempt() > 1 || !gang.start.resume().empty();
  may_resume ? callbacks_.find_resume(key, gang.start) : Publish(key);
}

void GangStarts::OnResume(const RankKey& key, const absl::Status& status, const std::string& path,
                          int64_t step) {
  const auto it = waiting_.find(key);
  if (it == waiting_.end()) return;
  if (!status.ok()) return Finish(key, status);
  it->second.facts.resume_path = path;
  it->second.facts.resume_step = step;
  Publish(key);
}

void GangStarts::Publish(const RankKey& key) {
  const GangStart& gang = waiting_.at(key);
  if (static_cast<uint32_t>(gang.start.ranks_size()) == gang.start.world_size()) {
    return FindPaths(key);
  }
  callbacks_.request(gang.start.fence(), key.rank,
                     {.id = kLineId,
                      .op = StoreLine::Op::kSet,
                      .keys = {kFactsKey},
                      .value = EncodeGangFacts(gang.facts)});
}

bool GangStarts::OnReply(const RankKey& key, const StoreReplyLine& reply) {
  const auto it = waiting_.find(key);
  if (it == waiting_.end()) return false;
  absl::Status status;
  if (!reply.error.empty()) {
    status = absl::UnavailableError(
        absl::StrCat("the gang's port is not to be had from rank 0's worker: ", reply.error));
  } else if (!it->second.held_port.valid()) {
    absl::StatusOr<GangFacts> facts = DecodeGangFacts(reply.value);
    status = facts.status();
    if (facts.ok()) it->second.facts = *std::move(facts);
  }
  status.ok() ? FindPaths(key) : Finish(key, std::move(status));
  return true;
}

void GangStarts::OnPaths(const RankKey& key, absl::StatusOr<CommandPaths> paths) {
  const auto it = waiting_.find(key);
  if (it == waiting_.end()) return;
  if (paths.ok()) it->second.paths = *std::move(paths);
  Finish(key, paths.status());
}

void GangStarts::Finish(const RankKey& key, absl::Status status) {
  auto node = waiting_.extract(key);
  callbacks_.done(std::move(node.mapped()), std::move(status));
}

std::vector<GangStart> GangStarts::TakeIf(const std::function<bool(const v1::Fence&)>& wanted) {
  std::vector<GangStart> taken;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (!wanted(it->second.start.fence())) {
      ++it;
      continue;
    }
    taken.push_back(std::move(it->second));
    it = waiting_.erase(it);
  }
  return taken;
}

void GangStarts::ForEachRank(
    const std::function<void(const v1::Fence&, const v1::StartRanks::Rank&)>& visit) const {
  for (const auto& [key, gang] : waiting_) {
    for (const v1::StartRanks::Rank& rank : gang.start.ranks()) visit(gang.start.fence(), rank);
  }
}

}  // namespace muster::worker
