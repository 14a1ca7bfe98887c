#include "controller/policy/health/data_sight.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/policy/health/eligibility.h"

namespace muster::controller {
namespace {

std::vector<const Worker*> AllWorkers(const Snapshot& snapshot) {
  std::vector<const Worker*> workers;
  snapshot.workers.ForEach([&workers](const Worker& worker) { workers.push_back(&worker); });
  return workers;
}

// Whether a rank could be placed there, were it idle and taking work.
bool CouldEverTake(const Worker& worker, const JobNeeds& needs, absl::Duration now) {
  const bool in_pools =
      std::any_of(needs.pools.begin(), needs.pools.end(),
                  [&](const JobNeeds::Pool& pool) { return pool.name == worker.facts.pool; });
  return !IsLostForGood(worker, now) && in_pools && IdleRanks(worker, needs) > 0;
}

bool FoundSound(const DataView& view) {
  return view.seen() && !view.failed() && !view.fingerprint.empty();
}

}  // namespace

const DataView* DataViewOf(const Worker& worker, const std::string& data) {
  if (worker.pulse.data == nullptr) return nullptr;
  const auto view = worker.pulse.data->find(data);
  return view == worker.pulse.data->end() ? nullptr : &view->second;
}

DataStanding StandingByItself(const Worker& worker, const std::string& data, absl::Duration now) {
  if (data.empty() || !worker.pulse.checks_data) return DataStanding::kSound;
  const DataView* view = DataViewOf(worker, data);
  if (view == nullptr) return DataStanding::kUnknown;
  if (view->failed()) return DataStanding::kFaulty;
  if (view->seen() && view->seen_at + kDataVerdictLasts > now) return DataStanding::kSound;
  if (view->answered) return DataStanding::kUnknown;
  return view->overdue || view->asked_at + kDataPatience <= now ? DataStanding::kOverdue
                                                                : DataStanding::kAsked;
}

DataSight::DataSight(std::string data, const Snapshot& snapshot)
    : DataSight(std::move(data), AllWorkers(snapshot)) {}

DataSight::DataSight(std::string data, const std::vector<const Worker*>& workers)
    : data_(std::move(data)) {
  if (data_.empty()) return;
  std::map<std::string, std::vector<const Worker*>> asked;  // by pool
  for (const Worker* worker : workers) {
    const bool counts = DataViewOf(*worker, data_) != nullptr && TakesWork(*worker);
    if (counts) asked[worker->facts.pool].push_back(worker);
  }
  for (auto& [name, of_pool] : asked) {
    InPool& pool = pools_[name];
    std::vector<const DataView*> views;
    for (const Worker* worker : of_pool) views.push_back(DataViewOf(*worker, data_));
    CountOverdue(pool, views);
    std::erase_if(
        of_pool, [this](const Worker* worker) { return !FoundSound(*DataViewOf(*worker, data_)); });
    Compare(pool, of_pool);
  }
}

void DataSight::CountOverdue(InPool& pool, const std::vector<const DataView*>& views) const {
  uint32_t overdue = 0;
  for (const DataView* view : views) {
    if (!view->overdue) continue;
    ++overdue;
    pool.overdue_since = std::min(pool.overdue_since, view->asked_at);
  }
  const auto answers = std::count_if(views.begin(), views.end(), [&](const DataView* view) {
    return view->seen() && view->seen_at >= pool.overdue_since;
  });
  pool.takes_long = overdue >= kMostOverdue + static_cast<uint32_t>(answers);
}

void DataSight::Compare(InPool& pool, const std::vector<const Worker*>& workers) const {
  std::vector<const DataView*> views;
  for (const Worker* worker : workers) views.push_back(DataViewOf(*worker, data_));
  if (views.empty()) return;
  absl::Duration newest = -absl::InfiniteDuration();
  for (const DataView* view : views) newest = std::max(newest, view->seen_at);
  pool.since = newest - kDataVerdictLasts;
  std::map<std::string, uint32_t> counts;
  for (const DataView* view : views) {
    if (view->seen_at >= pool.since) ++counts[view->fingerprint];
  }
  uint32_t most = 0;
  for (const DataView* view : views) {
    const uint32_t count = view->seen_at >= pool.since ? counts[view->fingerprint] : 0;
    if (count <= most) continue;
    most = count;
    pool.fingerprint = view->fingerprint;
  }
  pool.newest = -absl::InfiniteDuration();
  for (size_t i = 0; i < views.size(); ++i) {
    const DataView& view = *views[i];
    if (view.seen_at < pool.since || view.fingerprint != pool.fingerprint) continue;
    pool.newest = std::max(pool.newest, view.seen_at);
    pool.asked |= !view.answered;
    const bool is_older =
        pool.oldest == nullptr || view.seen_at < DataViewOf(*pool.oldest, data_)->seen_at;
    if (is_older) pool.oldest = workers[i];
  }
}

bool DataSight::Differs(const Worker& worker, const DataView& view) const {
  const auto pool = pools_.find(worker.facts.pool);
  return pool != pools_.end() && FoundSound(view) && view.seen_at >= pool->second.since &&
         view.fingerprint != pool->second.fingerprint;
}

bool DataSight::IsPutOff(const Worker& worker, const DataView* view) const {
  const auto pool = pools_.find(worker.facts.pool);
  if (pool == pools_.end() || !pool->second.takes_long) return false;
  return view == nullptr ||
         (view->answered && view->seen_at + kDataVerdictLasts <= pool->second.overdue_since);
}

bool DataSight::RulesOut(const Worker& worker) const {
  if (data_.empty() || !worker.pulse.checks_data) return false;
  const DataView* view = DataViewOf(worker, data_);
  if (IsPutOff(worker, view)) return true;
  return view != nullptr && (view->failed() || view->overdue || Differs(worker, *view));
}

std::string DataSight::WhyRuledOut(const Worker& worker) const {
  const DataView* view = DataViewOf(worker, data_);
  if (view != nullptr && view->failed()) return DescribeDataFault(*view);
  if (IsPutOff(worker, view))
    return "it is not asked to look at the job's data while others do for long";
  return view->overdue ? "it has not looked at the job's data yet, for long"
                       : "it found other data there than most";
}

DataStanding DataSight::Of(const Worker& worker, absl::Duration now) const {
  const DataStanding alone = StandingByItself(worker, data_, now);
  const DataView* view = DataViewOf(worker, data_);
  const bool compares = alone != DataStanding::kFaulty && view != nullptr && !data_.empty() &&
                        worker.pulse.checks_data;
  return compares && Differs(worker, *view) ? DataStanding::kDifferent : alone;
}

const Worker* DataSight::OldestOfMost(const Worker& different) const {
  const auto pool = pools_.find(different.facts.pool);
  const DataView* view = DataViewOf(different, data_);
  if (pool == pools_.end() || view == nullptr || pool->second.asked) return nullptr;
  return pool->second.newest < view->seen_at ? pool->second.oldest : nullptr;
}

absl::Duration NextDataLook(const DataView& view) {
  absl::Duration wait = kFirstDataRetry;
  for (uint32_t i = 1; i < view.failures && wait < kLongestDataRetry; ++i) wait *= 2;
  return view.seen_at + std::min(wait, kLongestDataRetry);
}

bool IsGivenUp(const DataView& view) {
  if (!view.failed()) return false;
  const bool away = view.fault == "missing" || view.fault == "forbidden";
  return view.fault == "broken" || (away && view.failures >= kDataLooks);
}

std::string DescribeDataFault(const DataView& view) {
  return view.error.empty() ? view.fault : absl::StrCat(view.fault, ": ", view.error);
}

UnusableData FindUnusableData(const Snapshot& snapshot, const JobNeeds& needs, absl::Duration now) {
  if (needs.data.empty()) return {};
  // Further workers may come, so that the first to come, whose copy of the data may not be whole
  // yet, does not speak for all.
  const bool may_grow = needs.wait_for_capacity;
  const Worker* first = nullptr;
  uint64_t given_up = 0;
  bool hope = false;
  absl::Duration asked_at = absl::InfiniteDuration();
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (hope || !CouldEverTake(worker, needs, now)) return;
    const DataView* view = DataViewOf(worker, needs.data);
    hope = !worker.pulse.connected || !worker.pulse.checks_data || view == nullptr ||
           !view->answered || !IsGivenUp(*view) || (may_grow && view->failures < kDataLooks);
    if (hope) return;
    if (first == nullptr) first = &worker;
    ++given_up;
    asked_at = std::min(asked_at, view->asked_at);
  });
  if (hope || first == nullptr) return {};
  return {.why = absl::StrCat("its data cannot be used on worker ", first->name, " (",
                              DescribeDataFault(*DataViewOf(*first, needs.data)), ")",
                              AndOthers(given_up - 1), ", and no other worker could take the job"),
          .asked_at = asked_at};
}

bool EndsFor(const UnusableData& data, const Job& job, absl::Duration admitted) {
  return !data.why.empty() && job.state == JobState::kPending && job.attempt == 0 &&
         admitted <= data.asked_at;
}

std::string WhyDataUnseen(const Snapshot& snapshot, const JobNeeds& needs, absl::Duration now) {
  if (needs.data.empty()) return "";
  const DataSight sight(needs.data, snapshot);
  // Of each kind the first worker, and how many there are.
  std::map<DataStanding, std::pair<const Worker*, uint64_t>> found;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (!TakesWork(worker, needs)) return;
    auto& [first, count] = found[sight.Of(worker, now)];
    if (first == nullptr) first = &worker;
    ++count;
  });
  std::vector<std::string> parts;
  const auto add = [&](DataStanding standing, const auto& describe) {
    const auto it = found.find(standing);
    if (it == found.end()) return;
    const auto [worker, count] = it->second;
    parts.push_back(describe(*worker, AndOthers(count - 1)));
  };
  add(DataStanding::kFaulty, [&](const Worker& worker, const std::string& others) {
    return absl::StrCat("its data are not seen by worker ", worker.name, " (",
                        DescribeDataFault(*DataViewOf(worker, needs.data)), ")", others);
  });
  add(DataStanding::kDifferent, [&](const Worker& worker, const std::string& others) {
    return absl::StrCat("worker ", worker.name, others, " found other data there than most");
  });
  for (const DataStanding standing : {DataStanding::kAsked, DataStanding::kOverdue}) {
    add(standing, [&](const Worker& worker, const std::string& others) {
      const DataView& view = *DataViewOf(worker, needs.data);
      return absl::StrCat(
          "its data are being looked at by worker ", worker.name, others,
          standing == DataStanding::kAsked
              ? ""
              : absl::StrCat(" for ", absl::ToInt64Minutes(now - view.asked_at), " min"));
    });
  }
  std::string text;
  for (const std::string& part : parts) absl::StrAppend(&text, text.empty() ? "" : "; ", part);
  return text;
}

}  // namespace muster::controller
