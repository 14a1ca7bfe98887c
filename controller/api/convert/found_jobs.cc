#include "controller/api/convert/found_jobs.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/api/convert/convert.h"
#include "controller/api/convert/pages.h"

namespace muster::controller {
namespace {

constexpr uint32_t kDefaultFound = 50;
constexpr uint32_t kMostFound = 500;
constexpr size_t kMostTextBytes = 256;
constexpr size_t kMostProjects = 1000;

using Order = v1::FindJobsRequest;

bool HasText(const Job& job, absl::string_view text) {
  if (text.empty()) return true;
  if (absl::StrCat(job.id) == text) return true;
  const auto holds = [text](absl::string_view value) {
    return absl::StrContains(absl::AsciiStrToLower(value), text);
  };
  return holds(job.settings->name) || holds(job.settings->project) || holds(job.owner) ||
         holds(job.message);
}

double DonePart(const Job& job) {
  if (job.progress.total_steps <= 0) return 0;
  return static_cast<double>(job.progress.step) / static_cast<double>(job.progress.total_steps);
}

// Before, after, or alike in what the jobs are ordered by.
std::weak_ordering Compare(Order::Order order, const Job& a, const Job& b) {
  switch (order) {
    case Order::NAME:
      return a.settings->name <=> b.settings->name;
    case Order::PROJECT:
      return a.settings->project <=> b.settings->project;
    case Order::STATE:
      return a.state <=> b.state;
    case Order::PRIORITY:
      return a.settings->priority <=> b.settings->priority;
    case Order::PROGRESS:
      return std::weak_order(DonePart(a), DonePart(b));
    case Order::RESTARTS:
      return a.restarts <=> b.restarts;
    default:
      return std::weak_ordering::equivalent;
  }
}

// Among equals the newer one is first, whichever way the others go.
void Sort(Order::Order order, bool ascending, size_t first, std::vector<const Job*>& jobs) {
  const auto comes_before = [order, ascending](const Job* a, const Job* b) {
    const std::weak_ordering found = Compare(order, *a, *b);
    if (found != 0) return ascending ? found < 0 : found > 0;
    return order == Order::ID && ascending ? a->id < b->id : a->id > b->id;
  };
  const auto end = jobs.begin() + static_cast<std::ptrdiff_t>(std::min(first, jobs.size()));
  std::partial_sort(jobs.begin(), end, jobs.end(), comes_before);
}

}  // namespace

absl::Status FillFoundJobs(const Snapshot& snapshot, size_t archived,
                           const v1::FindJobsRequest& request, const MayRead& may_read,
                           v1::FindJobsResponse& response) {
  if (request.text().size() > kMostTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("text: at most ", kMostTextBytes, " bytes"));
  }
  if (!v1::FindJobsRequest::Order_IsValid(request.order())) {
    return absl::InvalidArgumentError("order: none that this controller knows");
  }
  const std::set<int> states(request.states().begin(), request.states().end());
  const std::string text = absl::AsciiStrToLower(request.text());
  std::array<uint32_t, v1::JobState_ARRAYSIZE> counts{};
  std::set<absl::string_view> projects;
  std::vector<const Job*> found;
  snapshot.jobs.ForEach([&](const Job& job) {
    if (may_read != nullptr && !may_read(job.settings->project)) return;
    if (projects.size() < kMostProjects) projects.insert(job.settings->project);
    if (!request.project().empty() && job.settings->project != request.project()) return;
    if (!HasText(job, text)) return;
    ++counts[static_cast<size_t>(job.state)];
    if (states.empty() || states.contains(static_cast<int>(job.state))) found.push_back(&job);
  });
  const size_t wanted =
      request.page_size() == 0 ? kDefaultFound : std::min(request.page_size(), kMostFound);
  const size_t end = std::min(found.size(), request.offset() + wanted);
  Sort(request.order(), request.ascending(), end, found);
  PageBytes page;
  for (size_t i = request.offset(); i < end; ++i) {
    v1::JobSummary summary = ToProto(*found[i]);
    if (!page.Take(summary.ByteSizeLong())) break;
    *response.add_jobs() = std::move(summary);
  }
  response.set_matching(static_cast<uint32_t>(found.size()));
  for (size_t state = 0; state < counts.size(); ++state) {
    if (counts[state] == 0) continue;
    v1::FindJobsResponse::StateCount& count = *response.add_counts();
    count.set_state(static_cast<v1::JobState>(state));
    count.set_jobs(counts[state]);
  }
  for (const absl::string_view project : projects) response.add_projects(std::string(project));
  response.set_archived(archived);
  response.set_term(snapshot.term);
  return absl::OkStatus();
}

}  // namespace muster::controller
