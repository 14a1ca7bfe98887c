#include "controller/engine/dispatcher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/engine/assignment_maker.h"

namespace muster::controller {

void Dispatcher::Attach(Stream stream) {
  std::shared_ptr<WorkerLink> former;
  const std::string worker = stream.worker;
  {
    MutexLock lock(mutex_);
    Connection& connection = connections_[worker];
    former = std::move(connection.stream.link);
    connection = Connection{.stream = std::move(stream), .sent_at = {}};
  }
  if (former == nullptr) return;
  former->Close(absl::AbortedError(absl::StrCat("worker ", worker, ": a newer stream took over")));
}

void Dispatcher::Detach(const std::string& worker, uint64_t stream) {
  MutexLock lock(mutex_);
  const auto it = connections_.find(worker);
  if (it != connections_.end() && it->second.stream.stream == stream) connections_.erase(it);
}

void Dispatcher::Close(const std::string& worker, const std::string& incarnation,
                       const absl::Status& status) {
  std::shared_ptr<WorkerLink> link;
  {
    MutexLock lock(mutex_);
    const auto it = connections_.find(worker);
    if (it == connections_.end() || it->second.stream.incarnation != incarnation) return;
    link = std::move(it->second.stream.link);
    connections_.erase(it);
  }
  if (link != nullptr) link->Close(status);
}

void Dispatcher::SendUnstored(const std::string& worker, uint64_t stream,
                              const Assignment& assignment) {
  std::shared_ptr<WorkerLink> link;
  {
    MutexLock lock(mutex_);
    const auto it = connections_.find(worker);
    if (it == connections_.end() || it->second.stream.stream != stream) return;
    link = it->second.stream.link;
  }
  if (link != nullptr) link->Send(assignment);
}

bool Dispatcher::SendOnce(const std::string& worker, const std::string& incarnation,
                          const Assignment& assignment) {
  std::shared_ptr<WorkerLink> link;
  {
    MutexLock lock(mutex_);
    const auto it = connections_.find(worker);
    if (it == connections_.end() || it->second.stream.incarnation != incarnation) return false;
    link = it->second.stream.link;
  }
  if (link == nullptr) return false;
  link->Send(assignment);
  return true;
}

absl::Duration Dispatcher::RunOnce(const Snapshot& snapshot) {
  std::vector<const OutboxRow*> rows;
  snapshot.outbox.ForEach([&rows](const OutboxRow& row) { rows.push_back(&row); });
  std::vector<std::pair<std::shared_ptr<WorkerLink>, const OutboxRow*>> due;
  absl::Duration next = absl::InfiniteDuration();
  {
    MutexLock lock(mutex_);
    const absl::Duration now = clock_.SinceBoot();
    for (auto& [worker, connection] : connections_) {
      std::erase_if(connection.sent_at, [&snapshot](const auto& sent) {
        return snapshot.outbox.Find(sent.first) == nullptr;
      });
    }
    for (const OutboxRow* row : rows) {
      const auto it = connections_.find(row->worker);
      if (it == connections_.end()) continue;
      Connection& connection = it->second;
      if (connection.stream.incarnation != row->incarnation) continue;
      const auto sent = connection.sent_at.find(row->seq);
      if (sent == connection.sent_at.end() || sent->second + kRepeatAfter <= now) {
        connection.sent_at[row->seq] = now;
        due.emplace_back(connection.stream.link, row);
      }
      next = std::min(next, connection.sent_at[row->seq] + kRepeatAfter - now);
    }
  }
  AssignmentMaker maker(snapshot);
  for (const auto& [link, row] : due) link->Send(maker.Make(*row));
  sent_ += due.size();
  return next;
}

}  // namespace muster::controller
