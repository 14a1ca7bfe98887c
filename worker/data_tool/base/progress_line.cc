#include "worker/data_tool/base/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/units.h"

namespace muster::worker {
namespace {

constexpr int kBarWidth = 20;
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kNextLine = std::chrono::seconds(5);

}  // namespace

std::string WithCommas(uint64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string ProgressText(absl::string_view what, uint64_t done, uint64_t total, double seconds,
                         bool bar) {
  std::string text = absl::StrCat(what, "  ");
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (total > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    if (bar) {
      const auto full = static_cast<size_t>(share * kBarWidth);
      absl::StrAppend(&text, "[", std::string(full, '#'), std::string(kBarWidth - full, '.'),
                      "]  ");
    }
    absl::StrAppendFormat(&text, "%d %%  ", static_cast<int>(share * 100));
    absl::StrAppend(&text, WithCommas(done), " of ", WithCommas(total));
  } else {
    absl::StrAppend(&text, WithCommas(done));
  }
  if (rate >= 1) absl::StrAppend(&text, "  ", WithCommas(static_cast<uint64_t>(rate)), "/s");
  if (total > done && rate > 0) {
    const double left = std::ceil(static_cast<double>(total - done) / rate);
    absl::StrAppend(&text, "  ", HumanDuration(absl::Seconds(left)), " left");
  }
  return text;
}

ProgressLine::ProgressLine(std::string what, uint64_t total, bool shown)
    : what_(std::move(what)),
      total_(total),
      shown_(shown),
      terminal_(::isatty(STDERR_FILENO) == 1),
      begun_(Clock::now()),
      next_draw_((terminal_ ? Clock::duration(kRedraw) : Clock::duration(kNextLine)).count()) {}

ProgressLine::~ProgressLine() {
  MutexLock lock(mutex_);
  if (drawn_ && terminal_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Add(uint64_t count) {
  done_.fetch_add(count, std::memory_order_relaxed);
  DrawIfTime();
}

void ProgressLine::SetDone(uint64_t done) {
  done_.store(done, std::memory_order_relaxed);
  DrawIfTime();
}

void ProgressLine::DrawIfTime() {
  if (!shown_) return;
  const Clock::duration::rep now = (Clock::now() - begun_).count();
  Clock::duration::rep due = next_draw_.load(std::memory_order_relaxed);
  if (now < due) return;
  const Clock::duration pause = terminal_ ? Clock::duration(kRedraw) : Clock::duration(kNextLine);
  // One of the threads that find it is time.
  if (!next_draw_.compare_exchange_strong(due, now + pause.count())) return;
  MutexLock lock(mutex_);
  Draw();
}

void ProgressLine::Draw() {
  const std::chrono::duration<double> seconds = Clock::now() - begun_;
  const std::string text =
      ProgressText(what_, done_.load(), total_, seconds.count(), /*bar=*/terminal_);
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  drawn_ = true;
}

}  // namespace muster::worker
