// Which connection is closed for one that comes when a port is full: the oldest of the address that
// has most. Who comes with thousands, from however many addresses, takes places from itself, while
// somebody who comes with one keeps it. Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace muster {

class EvictionOrder {
 public:
  // A connection by its descriptor; one that was there under that number is replaced.
  void Add(int fd, const std::string& host);
  // Is not closed for others any more. One that is not there is left alone.
  void Remove(int fd);

  // Nullopt: there is none.
  std::optional<int> Next() const;
  // Among those of this address.
  std::optional<int> NextOf(const std::string& host) const;

  size_t size() const { return rows_.size(); }

 private:
  struct Row {
    std::string host;
    uint64_t number = 0;
  };
  using Host = std::map<uint64_t, int>;  // descriptors, by number

  uint64_t last_ = 0;
  std::unordered_map<int, Row> rows_;  // by descriptor
  std::unordered_map<std::string, Host> hosts_;
  std::set<std::pair<size_t, std::string>> by_size_;  // each of hosts_
};

}  // namespace muster
