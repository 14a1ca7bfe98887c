#include "controller/engine/rendezvous.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

StoreAnswer Failed(std::string error) {
  StoreAnswer answer;
  answer.error = std::move(error);
  return answer;
}

StoreAnswer Found(std::string value = "") {
  StoreAnswer answer;
  answer.found = true;
  answer.value = std::move(value);
  return answer;
}

// The first key from `from` on that is not there; their number: none is missing.
size_t FirstMissing(const std::map<std::string, std::string>& values,
                    const std::vector<std::string>& keys, size_t from) {
  while (from < keys.size() && values.count(keys[from]) != 0) ++from;
  return from;
}

bool HasAll(const std::map<std::string, std::string>& values,
            const std::vector<std::string>& keys) {
  return FirstMissing(values, keys, 0) == keys.size();
}

bool Waits(StoreOp::Kind kind) {
  return kind == StoreOp::Kind::kGet || kind == StoreOp::Kind::kWait;
}

size_t BytesOf(const std::vector<std::string>& keys) {
  size_t bytes = 0;
  for (const std::string& key : keys) bytes += sizeof(std::string) + key.size();
  return bytes;
}

// Why the request itself is malformed; empty when it is not.
std::string Fault(const StoreOp& op) {
  for (const std::string& key : op.keys) {
    if (key.size() > Rendezvous::kMaxKeyBytes) return "rendezvous: a key is too long";
  }
  if (op.value.size() > Rendezvous::kMaxValueBytes) return "rendezvous: the value is too long";
  if (op.keys.size() > Rendezvous::kMaxKeys) return "rendezvous: too many keys";
  switch (op.kind) {
    case StoreOp::Kind::kSet:
    case StoreOp::Kind::kGet:
    case StoreOp::Kind::kAdd:
    case StoreOp::Kind::kDelete:
      return op.keys.size() == 1 ? "" : "rendezvous: this operation takes one key";
    case StoreOp::Kind::kCheck:
    case StoreOp::Kind::kWait:
    case StoreOp::Kind::kCount:
      return "";
  }
  return "rendezvous: unknown operation";
}

}  // namespace

void Rendezvous::Open(uint64_t job_id, uint32_t attempt, uint32_t generation, std::string broken) {
  MutexLock lock(mutex_);
  gangs_[{job_id, attempt, generation}].broken = std::move(broken);
}

void Rendezvous::DropGangLocked(std::map<Key, Gang>::iterator gang, const std::string& error,
                                Answers& answers) {
  for (auto& [number, wait] : gang->second.waits) {
    deadlines_.erase({wait.deadline_at, gang->first, number});
    answers.push_back({std::move(wait.done), Failed(error)});
  }
  gangs_.erase(gang);
}

void Rendezvous::Close(uint64_t job_id, uint32_t attempt) {
  Answers answers;
  {
    MutexLock lock(mutex_);
    const std::string error = absl::StrCat("job ", job_id, ": attempt ", attempt, " has ended");
    for (auto it = gangs_.lower_bound({job_id, attempt, 0}); it != gangs_.end() &&
                                                             std::get<0>(it->first) == job_id &&
                                                             std::get<1>(it->first) == attempt;) {
      DropGangLocked(it++, error, answers);
    }
  }
  Give(std::move(answers));
}

void Rendezvous::CloseAll() {
  Answers answers;
  {
    MutexLock lock(mutex_);
    for (auto it = gangs_.begin(); it != gangs_.end();) {
      DropGangLocked(it++, "the controller is stopping", answers);
    }
  }
  Give(std::move(answers));
}

void Rendezvous::Handle(StoreOp op, StoreDone done) {
  Answers answers;
  std::function<void()> wake_up;
  {
    MutexLock lock(mutex_);
    const Key key{op.fence.job_id, op.fence.attempt, op.fence.generation};
    const auto it = gangs_.find(key);
    const std::string fault = Fault(op);
    if (it == gangs_.end()) {
      answers.push_back(
          {std::move(done), Failed(absl::StrCat("job ", op.fence.job_id, ": attempt ",
                                                op.fence.attempt, " is not live (fenced)"))});
    } else if (!it->second.broken.empty()) {
      answers.push_back({std::move(done), Failed(it->second.broken)});
    } else if (!fault.empty()) {
      answers.push_back({std::move(done), Failed(fault)});
    } else if (Gang& gang = it->second; Waits(op.kind) && !HasAll(gang.values, op.keys)) {
      const size_t bytes = BytesOf(op.keys);
      if (gang.waits.size() >= kMaxWaits || gang.wait_bytes + bytes > kMaxWaitBytes) {
        answers.push_back({std::move(done), Failed("rendezvous: too many waits at once")});
      } else {
        const absl::Duration next = NextDeadlineLocked();
        AddWaitLocked(key, gang, std::move(op), bytes, std::move(done));
        if (NextDeadlineLocked() < next) wake_up = wake_up_;
      }
    } else {
      bool changed = false;
      StoreAnswer answer = ApplyLocked(gang, op, changed);
      answers.push_back({std::move(done), std::move(answer)});
      if (changed) WakeLocked(key, gang, op.keys[0], answers);
    }
  }
  Give(std::move(answers));
  if (wake_up) wake_up();
}

StoreAnswer Rendezvous::ApplyLocked(Gang& gang, const StoreOp& op, bool& changed) {
  switch (op.kind) {
    case StoreOp::Kind::kSet:
      changed = true;
      return StoreLocked(gang, op.keys[0], op.value);
    case StoreOp::Kind::kGet:
      return Found(gang.values.at(op.keys[0]));
    case StoreOp::Kind::kAdd: {
      int64_t by = 0;
      int64_t now = 0;
      const auto it = gang.values.find(op.keys[0]);
      const bool numbers = absl::SimpleAtoi(op.value, &by) &&
                           (it == gang.values.end() || absl::SimpleAtoi(it->second, &now));
      int64_t sum = 0;
      if (!numbers || __builtin_add_overflow(now, by, &sum)) {
        return Failed(absl::StrCat("rendezvous: cannot add to ", op.keys[0], ": not a number"));
      }
      changed = true;
      StoreAnswer answer = StoreLocked(gang, op.keys[0], absl::StrCat(sum));
      if (answer.error.empty()) answer.value = absl::StrCat(sum);
      return answer;
    }
    case StoreOp::Kind::kCheck: {
      StoreAnswer answer;
      answer.found = HasAll(gang.values, op.keys);
      return answer;
    }
    case StoreOp::Kind::kDelete: {
      StoreAnswer answer;
      const auto it = gang.values.find(op.keys[0]);
      answer.found = it != gang.values.end();
      if (answer.found) {
        gang.bytes -= it->first.size() + it->second.size();
        gang.values.erase(it);
      }
      return answer;
    }
    case StoreOp::Kind::kWait:
      return Found();
    case StoreOp::Kind::kCount:
      return Found(absl::StrCat(gang.values.size()));
  }
  return Failed("rendezvous: unknown operation");
}

StoreAnswer Rendezvous::StoreLocked(Gang& gang, const std::string& key, std::string value) {
  const auto it = gang.values.find(key);
  const size_t before = it == gang.values.end() ? 0 : key.size() + it->second.size();
  const size_t after = gang.bytes - before + key.size() + value.size();
  if (after > kMaxStoreBytes || (it == gang.values.end() && gang.values.size() >= kMaxKeys)) {
    return Failed("rendezvous: the gang's store is full");
  }
  gang.bytes = after;
  gang.values[key] = std::move(value);
  return Found();
}

void Rendezvous::AddWaitLocked(const Key& key, Gang& gang, StoreOp op, size_t bytes,
                               StoreDone done) {
  const absl::Duration timeout =
      std::clamp(op.timeout, absl::ZeroDuration(), absl::Duration(kMaxTimeout));
  Wait wait{.keys = std::move(op.keys),
            .get = op.kind == StoreOp::Kind::kGet,
            .bytes = bytes,
            .deadline_at = clock_.SinceBoot() + timeout,
            .done = std::move(done)};
  wait.found = FirstMissing(gang.values, wait.keys, 0);
  const uint64_t number = ++last_wait_;
  gang.wait_bytes += bytes;
  gang.waits_for[wait.keys[wait.found]].insert(number);
  deadlines_.emplace(wait.deadline_at, key, number);
  gang.waits.emplace(number, std::move(wait));
}

Rendezvous::Wait Rendezvous::TakeWaitLocked(const Key& key, Gang& gang, uint64_t number) {
  Wait wait = std::move(gang.waits.extract(number).mapped());
  gang.wait_bytes -= wait.bytes;
  deadlines_.erase({wait.deadline_at, key, number});
  if (wait.found == wait.keys.size()) return wait;
  const auto others = gang.waits_for.find(wait.keys[wait.found]);
  others->second.erase(number);
  if (others->second.empty()) gang.waits_for.erase(others);
  return wait;
}

void Rendezvous::WakeLocked(const Key& key, Gang& gang, const std::string& name, Answers& answers) {
  const auto waits = gang.waits_for.extract(name);
  if (waits.empty()) return;
  std::shared_ptr<const std::string> value;
  for (const uint64_t number : waits.mapped()) {
    Wait& wait = gang.waits.at(number);
    wait.found = FirstMissing(gang.values, wait.keys, wait.found);
    // One that was there before may be gone by now.
    if (wait.found == wait.keys.size()) wait.found = FirstMissing(gang.values, wait.keys, 0);
    if (wait.found < wait.keys.size()) {
      gang.waits_for[wait.keys[wait.found]].insert(number);
      continue;
    }
    Wait ready = TakeWaitLocked(key, gang, number);
    Answer answer{std::move(ready.done), Found()};
    if (ready.get) {
      if (value == nullptr) value = std::make_shared<const std::string>(gang.values.at(name));
      answer.value = value;
    }
    answers.push_back(std::move(answer));
  }
}

void Rendezvous::Give(Answers answers) {
  for (Answer& entry : answers) {
    if (entry.value != nullptr) entry.answer.value = *entry.value;
    entry.done(std::move(entry.answer));
  }
}

absl::Duration Rendezvous::NextDeadlineLocked() const {
  return deadlines_.empty() ? absl::InfiniteDuration() : std::get<0>(*deadlines_.begin());
}

absl::Duration Rendezvous::Expire() {
  Answers answers;
  absl::Duration next;
  {
    MutexLock lock(mutex_);
    const absl::Duration now = clock_.SinceBoot();
    while (NextDeadlineLocked() <= now) {
      const auto [deadline_at, key, number] = *deadlines_.begin();
      Wait wait = TakeWaitLocked(key, gangs_.at(key), number);
      StoreAnswer answer = Failed(absl::StrCat("rendezvous: timed out waiting for ", wait.keys[0]));
      answer.timed_out = true;
      answers.push_back({std::move(wait.done), std::move(answer)});
    }
    next = NextDeadlineLocked();
  }
  Give(std::move(answers));
  return next;
}

void Rendezvous::SetWakeUp(std::function<void()> wake_up) {
  MutexLock lock(mutex_);
  wake_up_ = std::move(wake_up);
}

}  // namespace muster::controller
