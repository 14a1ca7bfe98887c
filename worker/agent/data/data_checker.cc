#include "worker/agent/data/data_checker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

constexpr size_t kMaxErrorBytes = 1000;
// When memory is short it is ended before the ranks.
constexpr int kLookOomScore = 900;
constexpr char kJobFile[] = "job.json";
constexpr std::array<absl::string_view, 4> kFaults = {"missing", "forbidden", "broken",
                                                      "unavailable"};

v1::DataReport::Verdict MakeVerdict(const std::string& key, uint64_t number,
                                    absl::string_view fault, absl::string_view error) {
  v1::DataReport::Verdict verdict;
  verdict.set_key(key);
  verdict.set_number(number);
  verdict.set_fault(std::string(fault));
  verdict.set_error(CutUtf8(error, kMaxErrorBytes));
  return verdict;
}

std::string TextOf(const nlohmann::json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

// Of what it wrote to stderr, for people.
absl::string_view LastLine(absl::string_view text) {
  text = absl::StripSuffix(text, "\n");
  const size_t end = text.rfind('\n');
  return end == absl::string_view::npos ? text : text.substr(end + 1);
}

std::string HowItEnded(const ToolResult& result) {
  std::string text = "muster-data preflight ";
  if (result.signal != 0) {
    absl::StrAppend(&text, "was ended by signal ", result.signal);
  } else {
    absl::StrAppend(&text, "ended with code ", result.exit_code, " and no report");
  }
  const absl::string_view last = LastLine(result.errors);
  if (!last.empty()) absl::StrAppend(&text, ": ", last);
  return text;
}

v1::DataReport::Verdict VerdictOf(const std::string& key, uint64_t number,
                                  const ToolResult& result) {
  const nlohmann::json report =
      nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  const auto ok = report.is_object() ? report.find("ok") : report.end();
  if (!report.is_object() || ok == report.end() || !ok->is_boolean() || result.signal != 0) {
    return MakeVerdict(key, number, "other", HowItEnded(result));
  }
  if (ok->get<bool>()) {
    v1::DataReport::Verdict verdict = MakeVerdict(key, number, "", "");
    verdict.set_fingerprint(TextOf(report, "fingerprint"));
    return verdict;
  }
  const std::string fault = TextOf(report, "fault");
  const bool is_known = std::find(kFaults.begin(), kFaults.end(), fault) != kFaults.end();
  return MakeVerdict(key, number, is_known ? fault : "other", TextOf(report, "error"));
}

}  // namespace

DataChecker::DataChecker(EventLoop& loop, FileSystem& fs, ChildProcesses& children,
                         DataCheckerOptions options, std::function<void()> changed)
    : loop_(loop),
      fs_(fs),
      children_(children),
      options_(std::move(options)),
      changed_(std::move(changed)) {
  fs_.RemoveTree(options_.folder).IgnoreError();
}

DataChecker::~DataChecker() { Clear(); }

void DataChecker::Check(const v1::CheckData& check) {
  for (auto& [id, look] : looks_) {
    if (look.key != check.key()) continue;
    look.number = check.number();
    look.unasked_since.reset();
    return;
  }
  for (v1::CheckData& waiting : queue_) {
    if (waiting.key() != check.key()) continue;
    waiting = check;
    return;
  }
  // Another one would hang as well, and take one more of the places of those that do.
  if (HangsStill(check.key())) {
    return Say(MakeVerdict(check.key(), check.number(), "unavailable",
                           "an earlier look at the data hangs and cannot be ended: is their file "
                           "system away?"));
  }
  if (queue_.size() >= kMaxQueued) {
    return Say(MakeVerdict(check.key(), check.number(), "other",
                           "this agent looks at too many data already"));
  }
  queue_.push_back(check);
  BeginNext();
}

void DataChecker::OnSessionDown() {
  queue_.clear();
  verdicts_.clear();
  const absl::Duration now = loop_.clock().SinceBoot();
  for (auto& [id, look] : looks_) {
    if (!look.unasked_since.has_value()) look.unasked_since = now;
  }
}

void DataChecker::Clear() {
  queue_.clear();
  verdicts_.clear();
  while (!looks_.empty()) LeaveBehind(looks_.begin()->first);
}

v1::DataReport DataChecker::Report() const {
  v1::DataReport report;
  for (const auto& [key, verdict] : verdicts_) *report.add_verdicts() = verdict;
  return report;
}

void DataChecker::BeginNext() {
  while (!queue_.empty() && MakePlace()) {
    const v1::CheckData check = std::move(queue_.front());
    queue_.pop_front();
    Begin(check);
  }
}

bool DataChecker::MakePlace() {
  const absl::Duration now = loop_.clock().SinceBoot();
  const auto is_unasked = [](const auto& entry) { return entry.second.unasked_since.has_value(); };
  const auto is_quick = [&](const auto& entry) {
    return !is_unasked(entry) && now - entry.second.begun_at < options_.quick;
  };
  if (std::count_if(looks_.begin(), looks_.end(), is_quick) >= int64_t{kAtOnce}) return false;
  if (looks_.size() < kMaxLooks) return true;
  const auto unasked = std::find_if(looks_.begin(), looks_.end(), is_unasked);
  if (unasked == looks_.end()) return false;
  LeaveBehind(unasked->first);
  return true;
}

void DataChecker::Begin(const v1::CheckData& check) {
  if (left_behind_.size() >= kMaxLeftBehind) {
    return Say(MakeVerdict(check.key(), check.number(), "unavailable",
                           absl::StrCat(kMaxLeftBehind,
                                        " earlier looks at data hang and cannot be "
                                        "ended: is a file system away?")));
  }
  const uint64_t id = ++last_id_;
  const std::string folder = absl::StrCat(options_.folder, "/", id);
  absl::StatusOr<std::unique_ptr<ToolRun>> run = Run(id, folder, check.spec_json());
  if (!run.ok()) {
    fs_.RemoveTree(folder).IgnoreError();
    return Say(MakeVerdict(check.key(), check.number(), "other",
                           absl::StrCat("muster-data cannot be run: ", run.status().message())));
  }
  const absl::Duration now = loop_.clock().SinceBoot();
  looks_[id] = {.key = check.key(),
                .number = check.number(),
                .run = *std::move(run),
                .signs_at = now,
                .begun_at = now};
  Watch(id);
}

absl::StatusOr<std::unique_ptr<ToolRun>> DataChecker::Run(uint64_t id, const std::string& folder,
                                                          const std::string& spec_json) {
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(folder));
  MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, absl::StrCat(folder, "/", kJobFile), spec_json));
  return ToolRun::Start(loop_, fs_, children_,
                        {.program = options_.program,
                         .words = {"preflight", "-f", kJobFile},
                         .environment = options_.environment,
                         .folder = folder,
                         .patience = absl::InfiniteDuration(),
                         .file_mask = options_.file_mask,
                         .oom_score_adj = kLookOomScore},
                        [this, id](const ToolResult& result) { OnEnd(id, result); });
}

void DataChecker::Watch(uint64_t id) {
  Look& look = looks_.at(id);
  const absl::Duration now = loop_.clock().SinceBoot();
  const uint64_t written = look.run->BytesWritten();
  const uint64_t signs = written + look.run->BytesRead();
  if (std::exchange(look.signs, signs) != signs) look.signs_at = now;
  if (look.unasked_since.has_value() && now - *look.unasked_since >= options_.unasked) {
    LeaveBehind(id);
    return BeginNext();
  }
  if (written > kMaxOutput) {
    return GiveUp(id, "other", "muster-data preflight writes without end");
  }
  if (now - look.signs_at >= options_.silence) {
    return GiveUp(id, "unavailable",
                  absl::StrCat("the look at the data neither read nor said anything for ",
                               HumanDuration(options_.silence), ": does their file system hang?"));
  }
  look.timer = loop_.After(options_.look_every, [this, id] {
    Watch(id);
    BeginNext();  // it may have left its place
  });
}

DataChecker::Look DataChecker::LeaveBehind(uint64_t id) {
  Look look = std::move(looks_.extract(id).mapped());
  loop_.Cancel(look.timer);
  look.run->Abandon();
  left_behind_[id] = {look.key, std::move(look.run), loop_.clock().SinceBoot()};
  return look;
}

bool DataChecker::HangsStill(const std::string& key) const {
  const absl::Duration now = loop_.clock().SinceBoot();
  return std::any_of(left_behind_.begin(), left_behind_.end(), [&](const auto& entry) {
    const LeftBehind& left = entry.second;
    return left.key == key && now - left.killed_at >= options_.look_every;
  });
}

void DataChecker::GiveUp(uint64_t id, const char* fault, const std::string& error) {
  const Look look = LeaveBehind(id);
  if (!look.unasked_since.has_value()) Say(MakeVerdict(look.key, look.number, fault, error));
  BeginNext();
}

void DataChecker::OnEnd(uint64_t id, const ToolResult& result) {
  if (left_behind_.erase(id) > 0) return;
  Look look = std::move(looks_.extract(id).mapped());
  loop_.Cancel(look.timer);
  if (!look.unasked_since.has_value()) Say(VerdictOf(look.key, look.number, result));
  BeginNext();
}

void DataChecker::Say(v1::DataReport::Verdict verdict) {
  Log(verdict.fault().empty() ? LogLevel::kInfo : LogLevel::kWarning, "data_looked_at",
      {{"data", verdict.key()},
       {"fault", verdict.fault()},
       {"error", verdict.error()},
       {"fingerprint", verdict.fingerprint()}});
  verdicts_[verdict.key()] = std::move(verdict);
  if (verdicts_.size() > kMaxVerdicts) {
    verdicts_.erase(std::min_element(
        verdicts_.begin(), verdicts_.end(),
        [](const auto& a, const auto& b) { return a.second.number() < b.second.number(); }));
  }
  changed_();
}

}  // namespace muster::worker
