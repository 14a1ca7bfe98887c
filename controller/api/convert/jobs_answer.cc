#include "controller/api/convert/jobs_answer.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "controller/api/convert/convert.h"
#include "controller/api/convert/pages.h"

namespace muster::controller {
namespace {

constexpr uint32_t kDefaultJobPage = 100;
constexpr uint32_t kMaxJobPage = 1000;
// Jobs that one page looks at. A page that few match may hold less than asked for, and a token.
constexpr uint32_t kMaxJobsSeen = 20'000;
// To read one from history.db costs as much as to look at so many.
constexpr uint32_t kSeenForArchived = 20;
constexpr int kMaxTags = 16;  // in a filter

// Whether the job ended in the span that the request asks for, if it asks for one.
bool EndedWithin(const v1::ListJobsRequest& request, const Job& job) {
  const int64_t finished = ToMillis(job.finished);
  if (request.finished_from_ms() != 0 && finished < request.finished_from_ms()) return false;
  return request.finished_before_ms() == 0 ||
         (finished != 0 && finished < request.finished_before_ms());
}

bool HasTags(const Job& job, const v1::ListJobsRequest& request) {
  const std::map<std::string, std::string>& tags = job.settings->tags;
  return std::all_of(request.tags().begin(), request.tags().end(), [&tags](const auto& wanted) {
    const auto it = tags.find(wanted.first);
    return it != tags.end() && it->second == wanted.second;
  });
}

using StateSet = std::bitset<v1::JobState_ARRAYSIZE>;

// Those that the request names; all when it names none.
absl::StatusOr<StateSet> StatesOf(const v1::ListJobsRequest& request) {
  if (request.states_size() == 0) return StateSet().set();
  if (request.states_size() > v1::JobState_ARRAYSIZE) {
    return absl::InvalidArgumentError(
        absl::StrCat("states: at most ", v1::JobState_ARRAYSIZE, ", each once"));
  }
  StateSet states;
  for (const int state : request.states()) {
    if (v1::JobState_IsValid(state)) states.set(static_cast<size_t>(state));
  }
  return states;
}

// The jobs that a request for these states has to look at, newest first. Where no state of ended
// jobs is asked for, only the list of those that have not ended is walked, which is far shorter.
class Candidates {
 public:
  Candidates(const Snapshot& snapshot, const StateSet& states)
      : snapshot_(snapshot),
        only_active_(!states.test(v1::SUCCEEDED) && !states.test(v1::FAILED) &&
                     !states.test(v1::CANCELLED)) {}

  // The newest one below `id`; 0: there is none.
  uint64_t Below(uint64_t id) const {
    if (!only_active_) return snapshot_.jobs.PreviousId(id);
    const std::vector<uint64_t>& active = *snapshot_.active_jobs;
    const auto next = std::lower_bound(active.begin(), active.end(), id);
    return next == active.begin() ? 0 : *(next - 1);
  }

 private:
  const Snapshot& snapshot_;
  const bool only_active_;
};

// Ids of archived jobs that a request for jobs asks for, newest first, a page of the walk at a
// time.
class ArchivedCandidates {
 public:
  // `first`: the id that the walk begins with. `most` are wanted at a time. None are found where no
  // ended job is asked for.
  ArchivedCandidates(History& history, const v1::ListJobsRequest& request, const StateSet& states,
                     uint64_t first, int most)
      : history_(history), down_to_(first + 1) {
    query_.most = static_cast<size_t>(most) + 1;
    query_.project = request.project();
    if (request.finished_from_ms() != 0) {
      query_.finished_from = absl::FromUnixMillis(request.finished_from_ms());
    }
    if (request.finished_before_ms() != 0) {
      query_.finished_before = absl::FromUnixMillis(request.finished_before_ms());
    }
    for (const v1::JobState state : {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}) {
      if (states.test(state)) query_.states.push_back(static_cast<JobState>(state));
    }
    if (query_.states.empty() || history_.jobs() == 0) down_to_ = 0;
  }

  // The next one; 0: none is known above down_to().
  uint64_t Next() const { return next_ < ids_.size() ? ids_[next_] : 0; }
  void Pass() { ++next_; }
  // All above this id have been found; 0: there are no more.
  uint64_t down_to() const { return Next() != 0 ? Next() : down_to_; }

  // Goes on with the walk. Requires that Next is 0 and down_to is not.
  absl::Status Find() {
    query_.below = down_to_;
    MUSTER_ASSIGN_OR_RETURN(ArchivedPage<uint64_t> page, history_.List(query_));
    ids_ = std::move(page.rows);
    next_ = 0;
    down_to_ = page.looked_down_to;
    return absl::OkStatus();
  }

 private:
  History& history_;
  ArchivedJobsQuery query_;
  std::vector<uint64_t> ids_;
  size_t next_ = 0;
  uint64_t down_to_;
};

}  // namespace

absl::Status FillJobs(const Snapshot& snapshot, History& history,
                      const v1::ListJobsRequest& request, const MayRead& may_read,
                      v1::ListJobsResponse& response) {
  MUSTER_ASSIGN_OR_RETURN(uint64_t id,
                          IdOfToken(request.page_token(), /*first=*/snapshot.jobs.last_id()));
  id = std::min(id, snapshot.jobs.last_id());
  const uint32_t wanted = request.page_size() == 0 ? kDefaultJobPage : request.page_size();
  const int most = static_cast<int>(std::min(wanted, kMaxJobPage));
  if (request.tags_size() > kMaxTags) {
    return absl::InvalidArgumentError(absl::StrCat("tags: at most ", kMaxTags));
  }
  MUSTER_ASSIGN_OR_RETURN(const StateSet states, StatesOf(request));
  uint32_t seen = 0;
  PageBytes bytes;
  const Candidates jobs(snapshot, states);
  ArchivedCandidates archived(history, request, states, id, most);
  for (uint64_t here = request.archived_only() ? 0 : jobs.Below(id + 1);;) {
    if (archived.Next() == 0 && archived.down_to() > here) {
      if (seen > kMaxJobsSeen) {
        response.set_next_page_token(absl::StrCat(archived.down_to() - 1));
        return absl::OkStatus();
      }
      MUSTER_RETURN_IF_ERROR(archived.Find());
      seen += kMaxJobsSeen / 4;  // rows of an index: cheaper than jobs
      continue;
    }
    id = std::max(here, archived.Next());
    if (id == 0) return absl::OkStatus();
    std::shared_ptr<const Job> job = snapshot.jobs.Share(id);
    if (id == archived.Next()) {
      archived.Pass();
      if (job != nullptr) continue;  // it was restored
      seen += kSeenForArchived;
      absl::StatusOr<ArchivedJob> found = history.Find(id);
      if (absl::IsNotFound(found.status())) continue;  // it was forgotten since
      if (absl::IsDataLoss(found.status())) {
        Log(LogLevel::kError, "archived_job_unreadable",
            {{"job", id}, {"error", found.status().ToString()}});
        continue;
      }
      MUSTER_RETURN_IF_ERROR(found.status());
      job = std::move(found->job);
    } else {
      here = jobs.Below(id);
    }
    const bool wanted =
        states.test(static_cast<size_t>(job->state)) &&
        (request.project().empty() || job->settings->project == request.project()) &&
        (may_read == nullptr || may_read(job->settings->project)) && EndedWithin(request, *job) &&
        HasTags(*job, request);
    v1::JobSummary summary;
    if (wanted) summary = ToProto(*job);
    const bool full =
        wanted && (response.jobs_size() == most || !bytes.Take(summary.ByteSizeLong()));
    if (++seen > kMaxJobsSeen || full) {
      response.set_next_page_token(absl::StrCat(id));
      return absl::OkStatus();
    }
    if (wanted) *response.add_jobs() = std::move(summary);
  }
}

}  // namespace muster::controller
