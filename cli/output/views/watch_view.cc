#include "cli/output/views/watch_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/output/chart.h"
#include "cli/output/text.h"
#include "cli/output/views/views.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kPaceWindow = absl::Seconds(30);
// More are thinned by half: the curve is drawn in some 50 characters anyhow.
constexpr size_t kMaxLosses = 4096;
constexpr size_t kBarWidth = 40;
constexpr size_t kCurveWidth = 50;

std::optional<double> Fraction(const v1::JobSummary& job) {
  if (job.total_steps() <= 0) return std::nullopt;
  return static_cast<double>(job.step()) / static_cast<double>(job.total_steps());
}

std::string Joined(const std::vector<std::string>& parts) { return absl::StrJoin(parts, "  "); }

std::string Accuracies(const v1::JobSummary& job) {
  std::vector<std::string> parts;
  if (job.has_validation_accuracy())
    parts.push_back("validation " + Percent(job.validation_accuracy()));
  if (!job.has_validation_accuracy() && job.has_validation_loss())
    parts.push_back("validation loss " + Number(job.validation_loss()));
  if (job.has_best_validation_accuracy())
    parts.push_back("best " + Percent(job.best_validation_accuracy()));
  if (job.has_test_accuracy()) parts.push_back("test " + Percent(job.test_accuracy()));
  return Joined(parts);
}

std::string Speeds(const v1::JobSummary& job) {
  std::vector<std::string> parts;
  if (job.has_samples_per_second())
    parts.push_back(Number(job.samples_per_second()) + " samples/s");
  if (job.has_lr()) parts.push_back("lr " + Number(job.lr()));
  if (job.has_memory_bytes()) {
    const std::string peak = job.has_memory_peak_bytes()
                                 ? absl::StrCat(" (peak ", Bytes(job.memory_peak_bytes()), ")")
                                 : "";
    parts.push_back(absl::StrCat("memory ", Bytes(job.memory_bytes()), peak));
  }
  return Joined(parts);
}

}  // namespace

void WatchHistory::Observe(absl::Duration now, const v1::JobSummary& job) {
  // The time to the first step is no pace.
  if (job.step() <= 0) return;
  if (job.attempt() != attempt_ || (!paces_.empty() && job.step() < paces_.back().step))
    paces_.clear();
  attempt_ = job.attempt();
  if (paces_.empty() || job.step() > paces_.back().step) paces_.push_back({now, job.step()});
  while (paces_.size() > 2 && now - paces_.front().time > kPaceWindow) paces_.pop_front();
  if (job.has_loss()) AddLoss(job.step(), job.loss());
}

void WatchHistory::AddLoss(int64_t step, double loss) {
  while (!losses_.empty() && losses_.back().step >= step) losses_.pop_back();
  losses_.push_back({step, loss});
  if (losses_.size() <= kMaxLosses) return;
  for (size_t i = 0; 2 * i < losses_.size(); ++i) losses_[i] = losses_[2 * i];
  losses_.resize((losses_.size() + 1) / 2);
}

std::optional<absl::Duration> WatchHistory::Eta(const v1::JobSummary& job) const {
  if (IsTerminal(job.state()) || paces_.size() < 2 || job.total_steps() <= job.step())
    return std::nullopt;
  const int64_t steps = paces_.back().step - paces_.front().step;
  const absl::Duration time = paces_.back().time - paces_.front().time;
  if (steps <= 0 || time <= absl::ZeroDuration()) return std::nullopt;
  return time * (static_cast<double>(job.total_steps() - job.step()) / static_cast<double>(steps));
}

std::vector<double> WatchHistory::losses() const {
  std::vector<double> values;
  for (const Loss& loss : losses_) values.push_back(loss.loss);
  return values;
}

std::vector<std::string> WatchBlock(const v1::JobSummary& job, const WatchHistory& history,
                                    size_t width, bool unicode) {
  std::vector<std::string> lines;
  std::vector<std::string> head = {absl::StrCat("job ", JobName(job)),
                                   v1::JobState_Name(job.state())};
  if (!job.phase().empty() && !IsTerminal(job.state())) head.push_back(job.phase());
  if (job.workers_size() > 0) {
    head.push_back(absl::StrCat(job.ranks(), " ranks on ", absl::StrJoin(job.workers(), ", ")));
  }
  if (job.restarts() > 0) head.push_back(absl::StrCat("restarts ", job.restarts()));
  lines.push_back(Joined(head));

  if (const std::optional<double> done = Fraction(job); done.has_value()) {
    std::vector<std::string> progress = {absl::StrCat(ProgressBar(*done, kBarWidth, unicode),
                                                      absl::StrFormat(" %3.0f%%", 100 * *done)),
                                         absl::StrCat("step ", StepText(job))};
    if (job.epoch() > 0) progress.push_back("epoch " + Number(job.epoch()));
    if (const auto eta = history.Eta(job); eta.has_value())
      progress.push_back("eta " + HumanDuration(*eta));
    lines.push_back(Joined(progress));
  } else {
    lines.push_back(job.message());
  }
  lines.push_back(job.has_loss() ? absl::StrCat("loss ", Number(job.loss()), "  ",
                                                Sparkline(history.losses(), kCurveWidth, unicode))
                                 : "");
  lines.push_back(Speeds(job));
  lines.push_back(Accuracies(job));
  for (std::string& line : lines) line = CutTo(Plain(line), width);
  return lines;
}

std::string WatchLine(const v1::JobSummary& job, const WatchHistory& history) {
  std::vector<std::string> parts = {absl::StrCat("job ", JobName(job))};
  const bool ended = IsTerminal(job.state());
  const bool trains = job.state() == v1::RUNNING && !job.phase().empty();
  parts.push_back(trains ? job.phase() : v1::JobState_Name(job.state()));
  const std::optional<double> done = Fraction(job);
  if (done.has_value()) parts.push_back(absl::StrFormat("%s %.0f%%", StepText(job), 100 * *done));
  if (job.has_loss()) parts.push_back("loss " + Number(job.loss()));
  if (job.has_samples_per_second() && !ended)
    parts.push_back(Number(job.samples_per_second()) + "/s");
  if (job.has_memory_bytes() && !ended) parts.push_back(Bytes(job.memory_bytes()));
  if (job.has_best_validation_accuracy())
    parts.push_back("best " + Percent(job.best_validation_accuracy()));
  if (job.has_test_accuracy()) parts.push_back("test " + Percent(job.test_accuracy()));
  if (const auto eta = history.Eta(job); eta.has_value())
    parts.push_back("eta " + HumanDuration(*eta));
  if (!trains && !ended && !job.message().empty()) parts.push_back(job.message());
  return Plain(Joined(parts));
}

bool IsTerminal(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

std::string OutcomeText(const v1::JobSummary& job) {
  std::string text = absl::StrCat("job ", JobName(job), ": ", v1::JobState_Name(job.state()));
  if (job.state() == v1::SUCCEEDED && job.has_test_accuracy()) {
    absl::StrAppend(&text, ", test accuracy ", Percent(job.test_accuracy()));
  }
  if (job.started_ms() != 0 && job.finished_ms() != 0) {
    absl::StrAppend(&text, " after ",
                    Age(absl::FromUnixMillis(job.finished_ms()), job.started_ms()));
  }
  if (job.restarts() > 0) absl::StrAppend(&text, ", restarts: ", job.restarts());
  if (job.state() != v1::SUCCEEDED && !job.message().empty())
    absl::StrAppend(&text, ": ", job.message());
  return Plain(text);
}

}  // namespace muster::cli
