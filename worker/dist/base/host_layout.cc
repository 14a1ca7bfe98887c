#include "worker/dist/base/host_layout.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/os/boot_id.h"

namespace muster::worker {
namespace {

bool BySize(const std::vector<int>& a, const std::vector<int>& b) { return a.size() < b.size(); }

}  // namespace

std::string HostIdentity() {
  const std::string boot = BootId();
  char name[64] = {};
  if (::readlink("/proc/self/ns/pid", name, sizeof name - 1) < 0 || boot.empty()) {
    return absl::StrCat("unknown-", std::random_device()());  // equal to nobody's
  }
  return absl::StrCat(boot, "/", name);
}

int HostLayout::HostOf(int rank) const {
  size_t host = 0;
  while (std::find(hosts[host].begin(), hosts[host].end(), rank) == hosts[host].end()) host += 1;
  return static_cast<int>(host);
}

size_t HostLayout::FewestRanks() const {
  return std::min_element(hosts.begin(), hosts.end(), BySize)->size();
}

size_t HostLayout::MostRanks() const {
  return std::max_element(hosts.begin(), hosts.end(), BySize)->size();
}

std::string HostLayout::Text() const {
  std::vector<std::string> texts;
  for (const std::vector<int>& ranks : hosts) {
    const bool run = ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size());
    texts.push_back(run && ranks.size() > 1 ? absl::StrCat(ranks.front(), "-", ranks.back())
                                            : absl::StrJoin(ranks, "+"));
  }
  return absl::StrJoin(texts, ",");
}

absl::StatusOr<HostLayout> FindHosts(KeyValue& store, const HostLayoutOptions& options) {
  const auto key = [&](int rank) { return absl::StrCat(options.prefix, "host/", rank); };
  const std::string hosts_key = absl::StrCat(options.prefix, "hosts");
  const std::string protocol = absl::StrCat("gang-", kGangProtocol, "/");
  MUSTER_RETURN_IF_ERROR(
      store.Set(key(options.rank), absl::StrCat(protocol, HostIdentity(), "/", options.address)));
  const auto identity_of = [&](int rank) -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> identity = store.Get(key(rank), options.timeout);
    if (absl::IsDeadlineExceeded(identity.status())) {
      return absl::DeadlineExceededError(absl::StrCat(
          "rank ", rank, " did not come, or runs a muster-trainer that is too old to meet rank ",
          options.rank, "'s: ", identity.status().message()));
    }
    MUSTER_RETURN_IF_ERROR(identity.status());
    if (absl::StartsWith(*identity, protocol)) return identity;
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " runs another version of muster-trainer than rank ",
                     options.rank, ": upgrade all workers of the pool"));
  };
  MUSTER_ASSIGN_OR_RETURN(std::string first, identity_of(0));
  // Rank 0 asks for them all and tells the others: if each asked for each, a gang of thousands
  // would begin with millions of questions.
  if (options.rank != 0) {
    // As long as rank 0 may wait for all of them: it is the one that can say which one is missing.
    MUSTER_ASSIGN_OR_RETURN(const std::string hosts,
                            store.Get(hosts_key, options.timeout * options.world_size));
    return LayoutOf(absl::StrSplit(hosts, ','));
  }
  std::vector<std::string> identities = {std::move(first)};
  for (int rank = 1; rank < options.world_size; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(std::string identity, identity_of(rank));
    identities.push_back(std::move(identity));
  }
  HostLayout layout = LayoutOf(identities);
  std::vector<int> host_of(identities.size());
  for (size_t host = 0; host < layout.hosts.size(); ++host) {
    for (const int rank : layout.hosts[host]) host_of[rank] = static_cast<int>(host);
  }
  MUSTER_RETURN_IF_ERROR(store.Set(hosts_key, absl::StrJoin(host_of, ",")));
  return layout;
}

HostLayout LayoutOf(const std::vector<std::string>& identities) {
  HostLayout layout;
  std::vector<std::string> known;
  for (size_t rank = 0; rank < identities.size(); ++rank) {
    const auto found = std::find(known.begin(), known.end(), identities[rank]);
    const size_t host = static_cast<size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(identities[rank]);
      layout.hosts.emplace_back();
    }
    layout.hosts[host].push_back(static_cast<int>(rank));
  }
  return layout;
}

}  // namespace muster::worker
