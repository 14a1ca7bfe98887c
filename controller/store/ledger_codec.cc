#include "controller/store/ledger_codec.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

void Put(absl::Duration time, std::vector<int64_t>& numbers) {
  absl::Duration rest;
  numbers.push_back(absl::IDivDuration(time, absl::Seconds(1), &rest));
  numbers.push_back(absl::ToInt64Nanoseconds(rest));
}

// Takes the numbers in the order in which they were put.
class Numbers {
 public:
  explicit Numbers(const std::vector<int64_t>& numbers) : numbers_(numbers) {}

  int64_t Next() { return numbers_[at_++]; }
  absl::Duration NextTime() {
    const absl::Duration seconds = absl::Seconds(Next());
    return seconds + absl::Nanoseconds(Next());
  }
  // Anything but a label is broken.
  TimeLabel NextLabel(bool& sound) {
    const int64_t label = Next();
    sound = sound && label >= 0 && label < kTimeLabelCount;
    return static_cast<TimeLabel>(label);
  }

 private:
  const std::vector<int64_t>& numbers_;
  size_t at_ = 0;
};

constexpr size_t kNumbers = 11 + 2 * kTimeLabelCount;
constexpr size_t kArchivedNumbers = 2 + 2 * kTimeLabelCount;

// What the words of the text say; false: one of them is no number.
bool Parse(absl::string_view text, std::vector<int64_t>& numbers) {
  bool sound = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    sound = absl::SimpleAtoi(word, &numbers.emplace_back()) && sound;
  }
  return sound;
}

}  // namespace

std::string EncodeLedger(const JobLedger& ledger) {
  if (ledger.until == absl::InfinitePast()) return "";
  std::vector<int64_t> numbers;
  numbers.reserve(kNumbers);
  Put(ledger.until - absl::UnixEpoch(), numbers);
  Put(ledger.queued, numbers);
  numbers.push_back(static_cast<int64_t>(ledger.phase));
  numbers.push_back(ledger.step);
  numbers.push_back(ledger.highest_step);
  numbers.push_back(ledger.repeats_until);
  Put(ledger.unconfirmed, numbers);
  numbers.push_back(static_cast<int64_t>(ledger.unconfirmed_label));
  for (const absl::Duration part : ledger.times.of) Put(part, numbers);
  return absl::StrJoin(numbers, " ");
}

absl::StatusOr<JobLedger> DecodeLedger(absl::string_view text) {
  JobLedger ledger;
  if (text.empty()) return ledger;
  std::vector<int64_t> parsed;
  bool sound = Parse(text, parsed) && parsed.size() == kNumbers;
  if (sound) {
    Numbers numbers(parsed);
    ledger.until = absl::UnixEpoch() + numbers.NextTime();
    ledger.queued = numbers.NextTime();
    ledger.phase = numbers.NextLabel(sound);
    ledger.step = numbers.Next();
    ledger.highest_step = numbers.Next();
    ledger.repeats_until = numbers.Next();
    ledger.unconfirmed = numbers.NextTime();
    ledger.unconfirmed_label = numbers.NextLabel(sound);
    for (absl::Duration& part : ledger.times.of) part = numbers.NextTime();
    sound = sound && EncodeLedger(ledger) == text;  // no time beyond what a time can be
  }
  if (!sound) return absl::DataLossError(absl::StrCat("state.db holds a broken ledger: ", text));
  ledger.settled = ConfirmedTimes(ledger);
  ledger.settled_queued = ledger.queued;
  return ledger;
}

std::string EncodeArchivedTime(const ArchivedTime& time) {
  std::vector<int64_t> numbers;
  numbers.reserve(kArchivedNumbers);
  Put(time.queued, numbers);
  for (const absl::Duration part : time.held.of) Put(part, numbers);
  return absl::StrJoin(numbers, " ");
}

absl::StatusOr<ArchivedTime> DecodeArchivedTime(absl::string_view text) {
  ArchivedTime time;
  std::vector<int64_t> parsed;
  const bool sound = Parse(text, parsed) && parsed.size() == kArchivedNumbers;
  if (sound) {
    Numbers numbers(parsed);
    time.queued = numbers.NextTime();
    for (absl::Duration& part : time.held.of) part = numbers.NextTime();
  }
  if (!sound || EncodeArchivedTime(time) != text) {
    return absl::DataLossError(
        absl::StrCat("state.db holds broken times of archived jobs: ", text));
  }
  return time;
}

}  // namespace muster::controller
