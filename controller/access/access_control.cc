#include "controller/access/access_control.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "controller/access/access_schema.h"
#include "controller/access/access_store.h"
#include "controller/access/audit_store.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kFlushLastUsed = absl::Minutes(1);
// Rows of changes that wait for room: as many as calls may be under way. Beyond that the oldest
// would be lost, which the log tells.
constexpr size_t kMostHeld = 20'000;

absl::Status StoppingStatus() {
  return absl::UnavailableError("the controller is stopping: connect again soon");
}

absl::Status NoRoom() {
  return absl::ResourceExhaustedError(
      "the record of changes cannot be written: no room left on the controller's disk, so that "
      "nothing may be changed; free some there and try again");
}

}  // namespace

AccessControl::AccessControl(AccessOptions options, std::string builtin_token, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      authenticator_(std::move(builtin_token), clock) {}

absl::StatusOr<std::unique_ptr<AccessControl>> AccessControl::Open(AccessOptions options,
                                                                   std::string builtin_token,
                                                                   Clock& clock) {
  std::unique_ptr<AccessControl> control(
      new AccessControl(std::move(options), std::move(builtin_token), clock));
  MUSTER_RETURN_IF_ERROR(control->Load());
  control->thread_ = std::thread([raw = control.get()] { raw->Run(); });
  return control;
}

absl::Status AccessControl::Load() {
  MUSTER_ASSIGN_OR_RETURN(
      db_, SqliteDatabase::Open({.path = options_.path, .max_bytes = options_.database_max_bytes},
                                AccessMigrations()));
  store_ = std::make_unique<AccessStore>(*db_);
  audit_ = std::make_unique<AuditStore>(*db_, options_.audit_max_bytes);
  MUSTER_ASSIGN_OR_RETURN(AccessTables tables, store_->Load());
  MUSTER_RETURN_IF_ERROR(audit_->Load());
  authenticator_.Publish(tables);
  flushed_at_ = clock_.SinceBoot();
  MutexLock lock(mutex_);
  tables_ = std::make_shared<const AccessTables>(std::move(tables));
  return absl::OkStatus();
}

AccessControl::~AccessControl() { Stop(); }

void AccessControl::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const AccessTables> AccessControl::tables() const {
  MutexLock lock(mutex_);
  return tables_;
}

void AccessControl::Change(Edit edit, AuditEntry entry,
                           std::function<void(const absl::Status&)> done) {
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (stopping_) {
      refused = StoppingStatus();
    } else if (writes_.size() >= kMostWaiting) {
      refused = absl::ResourceExhaustedError("too many changes wait already: try again");
    } else {
      writes_.push_back({std::move(edit), std::move(entry), std::move(done)});
      wake_.NotifyAll();
      return;
    }
  }
  done(refused);
}

absl::Status AccessControl::CanRecord() const { return full_ ? NoRoom() : absl::OkStatus(); }

void AccessControl::Record(AuditEntry entry, std::function<void()> done) {
  const absl::Duration now = clock_.SinceBoot();
  {
    MutexLock lock(mutex_);
    if (!stopped_) {
      writes_.push_back({nullptr, fold_.Add(std::move(entry), now),
                         [done = std::move(done)](const absl::Status&) { done(); }});
      wake_.NotifyAll();
      return;
    }
  }
  done();
}

void AccessControl::RecordDenial(AuditEntry entry) {
  const absl::Duration now = clock_.SinceBoot();
  MutexLock lock(mutex_);
  if (stopped_) return;
  std::optional<AuditEntry> row = fold_.Add(std::move(entry), now);
  if (!row.has_value()) return;
  writes_.push_back({nullptr, std::move(row), nullptr});
  wake_.NotifyAll();
}

void AccessControl::Ask(Work work, std::function<void(const absl::Status&)> refused) {
  absl::Status why;
  {
    MutexLock lock(mutex_);
    if (stopping_) {
      why = StoppingStatus();
    } else if (questions_.size() >= kMostWaiting) {
      why = absl::ResourceExhaustedError("too many questions wait already: try again");
    } else {
      questions_.push_back(std::move(work));
      wake_.NotifyAll();
      return;
    }
  }
  refused(why);
}

void AccessControl::ReadAudit(const AuditQuery& query,
                              std::function<void(absl::StatusOr<AuditPage>)> done) {
  Ask([this, query, done] { done(audit_->Read(query)); },
      [done](const absl::Status& why) { done(why); });
}

absl::Status AccessControl::CopyTo(const std::string& path) {
  // Shared: who sets the value may be at it still when it has been taken.
  const auto over = std::make_shared<std::promise<absl::Status>>();
  const auto done = [over](const absl::Status& status) { over->set_value(status); };
  Ask(
      [this, path, done] {
        const absl::Status begun = db_->BeginCopy(path);
        begun.ok() ? GoOnCopying(done) : done(begun);
      },
      done);
  return over->get_future().get();
}

void AccessControl::GoOnCopying(std::function<void(const absl::Status&)> done) {
  Ask(
      [this, done] {
        const absl::StatusOr<bool> whole = db_->StepCopy();
        if (!whole.ok() || *whole) return done(whole.status());
        GoOnCopying(done);
      },
      done);
}

void AccessControl::VerifyAudit(const AuditPoint& known,
                                std::function<void(absl::StatusOr<AuditVerdict>)> done) {
  GoOnVerifying(known, std::make_shared<AuditWalk>(), std::move(done));
}

void AccessControl::GoOnVerifying(AuditPoint known, std::shared_ptr<AuditWalk> walk,
                                  std::function<void(absl::StatusOr<AuditVerdict>)> done) {
  Ask(
      [this, known, walk, done] {
        const absl::Status status = audit_->Verify(known, *walk);
        if (!status.ok()) {
          if (!absl::IsNotFound(status)) {
            Log(LogLevel::kError, "audit_not_whole", {{"error", status.ToString()}});
          }
          done(status);
        } else if (walk->done) {
          done(walk->verdict);
        } else {
          GoOnVerifying(known, walk, done);
        }
      },
      [done](const absl::Status& why) { done(why); });
}

void AccessControl::Run() {
  bool stop = false;
  while (!stop) {
    std::vector<Write> writes = std::exchange(held_, {});
    const bool retry = !writes.empty();
    Work question;
    {
      MutexLock lock(mutex_);
      absl::Duration wait = kFlushLastUsed;
      if (retry) wait = std::min(wait, options_.retry);
      wait = std::min(wait, fold_.next_due() - clock_.SinceBoot());
      if (writes_.empty() && questions_.empty() && !stopping_ && wait > absl::ZeroDuration()) {
        (void)wake_.WaitFor(mutex_, wait);
      }
      stop = stopping_;
      for (AuditEntry& due : fold_.TakeDue(clock_.SinceBoot(), clock_.Now())) {
        writes.push_back({nullptr, std::move(due), nullptr});
      }
      std::move(writes_.begin(), writes_.end(), std::back_inserter(writes));
      writes_.clear();
      if (!questions_.empty()) {
        question = std::move(questions_.front());
        questions_.pop_front();
      }
    }
    if (!writes.empty()) WriteAll(std::move(writes));
    if (question != nullptr) question();
    if (stop || clock_.SinceBoot() - flushed_at_ >= kFlushLastUsed) FlushLastUsed();
  }
  // What came meanwhile: nobody is left waiting.
  std::vector<Write> late;
  std::deque<Work> questions;
  {
    MutexLock lock(mutex_);
    late.swap(writes_);
    for (AuditEntry& due : fold_.TakeDue(clock_.SinceBoot(), clock_.Now(), /*all=*/true)) {
      late.push_back({nullptr, std::move(due), nullptr});
    }
    questions.swap(questions_);
    stopped_ = true;
  }
  if (!late.empty()) WriteAll(std::move(late));
  for (const Work& work : questions) work();
  if (!held_.empty()) Log(LogLevel::kError, "audit_rows_lost", {{"rows", held_.size()}});
}

absl::Status AccessControl::Store(const AccessTables& tables, const Touched& touched) {
  for (const std::string& name : touched.users) {
    const auto user = tables.users.find(name);
    MUSTER_RETURN_IF_ERROR(user == tables.users.end() ? store_->RemoveUser(name)
                                                      : store_->PutUser(user->second));
  }
  for (const uint64_t id : touched.tokens) {
    const auto token = tables.tokens.find(id);
    MUSTER_RETURN_IF_ERROR(token == tables.tokens.end() ? store_->RemoveToken(id)
                                                        : store_->PutToken(token->second));
  }
  return absl::OkStatus();
}

absl::Status AccessControl::BeginOnce(bool& begun) {
  if (begun) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(db_->Begin());
  begun = true;
  return absl::OkStatus();
}

absl::Status AccessControl::WriteRows(std::vector<Write>& writes, std::vector<absl::Status>& ends,
                                      AccessTables& tables, bool& begun) {
  for (size_t i = 0; i < writes.size(); ++i) {
    if (writes[i].edit != nullptr) {
      AccessTables draft = tables;
      Touched touched;
      ends[i] = writes[i].edit(draft, touched);
      // Refused, or as it was before.
      if (!ends[i].ok() || (touched.users.empty() && touched.tokens.empty())) continue;
      MUSTER_RETURN_IF_ERROR(BeginOnce(begun));
      MUSTER_RETURN_IF_ERROR(Store(draft, touched));
      tables = std::move(draft);
    }
    if (!writes[i].entry.has_value()) continue;
    MUSTER_RETURN_IF_ERROR(BeginOnce(begun));
    MUSTER_RETURN_IF_ERROR(audit_->Append(*writes[i].entry));
  }
  return absl::OkStatus();
}

void AccessControl::WriteAll(std::vector<Write> writes) {
  std::vector<absl::Status> ends(writes.size());
  const bool edits = std::any_of(writes.begin(), writes.end(),
                                 [](const Write& write) { return write.edit != nullptr; });
  auto tables = std::make_shared<AccessTables>();
  if (edits) *tables = *this->tables();
  bool begun = false;
  absl::Status status = WriteRows(writes, ends, *tables, begun);
  if (status.ok() && !begun) {  // nothing is to be written, whether or not there is room
    for (size_t i = 0; i < writes.size(); ++i) {
      if (writes[i].done != nullptr) writes[i].done(ends[i]);
    }
    return;
  }
  if (begun && status.ok()) {
    status = db_->Commit();
  } else if (begun) {
    db_->Rollback();
  }
  audit_->Settle(status.ok());
  const bool full = absl::IsResourceExhausted(status);
  if (full != full_) {
    Log(full ? LogLevel::kError : LogLevel::kInfo, full ? "audit_full" : "audit_has_room",
        {{"error", status.ToString()}});
  }
  full_ = full;
  if (!status.ok() && !full) Fail(status);
  if (status.ok() && edits) {
    authenticator_.Publish(*tables);
    MutexLock lock(mutex_);
    tables_ = std::move(tables);
  }
  for (size_t i = 0; i < writes.size(); ++i) {
    Write& write = writes[i];
    const bool hold = full && write.edit == nullptr && write.entry.has_value();
    if (write.done != nullptr) write.done(status.ok() ? ends[i] : full ? NoRoom() : status);
    if (!hold) continue;
    if (held_.size() >= kMostHeld) {
      Log(LogLevel::kError, "audit_row_lost",
          {{"user", write.entry->user}, {"method", write.entry->method}});
      continue;
    }
    write.done = nullptr;
    held_.push_back(std::move(write));
  }
  if (!status.ok()) return;
  absl::Status trimmed = audit_->Trim();
  if (trimmed.ok()) trimmed = db_->CheckpointWhenLarge();
  if (!trimmed.ok() && !absl::IsResourceExhausted(trimmed)) Fail(trimmed);
}

void AccessControl::FlushLastUsed() {
  flushed_at_ = clock_.SinceBoot();
  const std::map<uint64_t, absl::Time> used = authenticator_.TakeLastUsed();
  if (used.empty()) return;
  absl::Status status = db_->Begin();
  if (status.ok()) {
    status = store_->SetLastUsed(used);
    if (status.ok()) {
      status = db_->Commit();
    } else {
      db_->Rollback();
    }
  }
  if (absl::IsResourceExhausted(status)) return;  // known to the next minute then
  if (!status.ok()) return Fail(status);
  auto tables = std::make_shared<AccessTables>(*this->tables());
  for (const auto& [id, time] : used) {
    if (const auto token = tables->tokens.find(id); token != tables->tokens.end()) {
      token->second.last_used = time;
    }
  }
  MutexLock lock(mutex_);
  tables_ = std::move(tables);
}

void AccessControl::Fail(const absl::Status& status) {
  Log(LogLevel::kError, "access_db_failed", {{"error", status.ToString()}});
  if (options_.on_fatal) options_.on_fatal(status);
}

}  // namespace muster::controller
