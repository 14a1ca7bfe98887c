#include "common/os/eviction_order.h"

namespace muster {

void EvictionOrder::Add(int fd, const std::string& host) {
  Remove(fd);
  Host& others = hosts_[host];
  by_size_.erase({others.size(), host});
  others[++last_] = fd;
  by_size_.emplace(others.size(), host);
  rows_[fd] = {host, last_};
}

void EvictionOrder::Remove(int fd) {
  const auto row = rows_.find(fd);
  if (row == rows_.end()) return;
  const auto host = hosts_.find(row->second.host);
  by_size_.erase({host->second.size(), host->first});
  host->second.erase(row->second.number);
  if (host->second.empty()) {
    hosts_.erase(host);
  } else {
    by_size_.emplace(host->second.size(), host->first);
  }
  rows_.erase(row);
}

std::optional<int> EvictionOrder::Next() const {
  if (by_size_.empty()) return std::nullopt;
  return NextOf(by_size_.rbegin()->second);
}

std::optional<int> EvictionOrder::NextOf(const std::string& host) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return std::nullopt;
  return found->second.begin()->second;
}

}  // namespace muster
