#include "controller/api/page_service.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/convert/found_jobs.h"

namespace muster::controller {
namespace {

constexpr uint32_t kDefaultTail = 500;
constexpr uint32_t kMostTail = 5000;  // lines of each rank
constexpr size_t kMostLogBytes = 1 << 20;

absl::StatusOr<LogQuery> LogQueryOf(const v1::ReadLogsRequest& request, uint64_t job_id) {
  if (request.tail() > kMostTail) {
    return absl::InvalidArgumentError(absl::StrCat("tail: at most ", kMostTail, " lines"));
  }
  LogQuery query;
  query.job_id = job_id;
  if (request.has_rank()) query.rank = request.rank();
  if (request.has_attempt()) query.attempt = request.attempt();
  query.tail_lines = request.tail() == 0 ? kDefaultTail : request.tail();
  query.follow = true;
  return query;
}

// One answer, read page by page until nothing is left or it is full. It keeps itself alive, and its
// call, until then.
class LogAnswer : public std::enable_shared_from_this<LogAnswer> {
 public:
  LogAnswer(MetricsReader& metrics, LogQuery query, LogPosition position, UnaryCall* call,
            v1::ReadLogsResponse* response)
      : metrics_(metrics),
        query_(query),
        position_(std::move(position)),
        call_(call),
        response_(*response) {}

  void ReadOn() {
    metrics_.ReadLogs(query_, position_, [self = shared_from_this()](absl::StatusOr<LogPage> page) {
      self->OnPage(std::move(page));
    });
  }

 private:
  void OnPage(absl::StatusOr<LogPage> page) {
    if (!page.ok()) {
      call_->Done(page.status());
      return;
    }
    position_ = std::move(page->position);
    for (const StoredLogChunk& stored : page->chunks) Add(stored);
    const bool is_full = bytes_ >= kMostLogBytes;
    if (!page->chunks.empty() && !is_full) {
      ReadOn();
      return;
    }
    response_.set_more(is_full);
    response_.set_next(
        static_cast<uint64_t>(is_full ? page->chunks.back().id : position_.followed_id));
    call_->Done(absl::OkStatus());
  }

  void Add(const StoredLogChunk& stored) {
    const LogChunk& chunk = stored.chunk;
    absl::string_view text = chunk.text;
    if (const auto tail = position_.tails.find(chunk.key.rank); tail != position_.tails.end()) {
      const LogCursor& start = tail->second.start;
      const auto here = std::tie(chunk.key.attempt, stored.id);
      if (here < std::tie(start.attempt, start.id)) return;
      if (here == std::tie(start.attempt, start.id)) {
        text.remove_prefix(std::min<uint64_t>(tail->second.skip_bytes, text.size()));
      }
    }
    v1::ReadLogsResponse::Chunk& out = *response_.add_chunks();
    out.set_attempt(chunk.key.attempt);
    out.set_rank(chunk.key.rank);
    out.set_is_stderr(chunk.is_stderr);
    out.set_offset(chunk.offset + chunk.text.size() - text.size());
    out.set_text(text.data(), text.size());
    bytes_ += text.size();
  }

  MetricsReader& metrics_;
  const LogQuery query_;
  LogPosition position_;
  UnaryCall* const call_;
  v1::ReadLogsResponse& response_;
  size_t bytes_ = 0;
};

}  // namespace

grpc::ServerUnaryReactor* PageService::FindJobs(grpc::CallbackServerContext* context,
                                                const v1::FindJobsRequest* request,
                                                v1::FindJobsResponse* response) {
  auto* call = new UnaryCall(gate_, "FindJobs");
  absl::Status status = call->Enter(*context, "PageService/FindJobs");
  if (status.ok()) {
    status = FillFoundJobs(*engine_.snapshot(), engine_.history().jobs(), *request,
                           gate_.ReadsOf(call->caller()), *response);
  }
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* PageService::ReadLogs(grpc::CallbackServerContext* context,
                                                const v1::ReadLogsRequest* request,
                                                v1::ReadLogsResponse* response) {
  auto* call = new UnaryCall(gate_, "ReadLogs");
  absl::Status status = call->Enter(*context, "PageService/ReadLogs");
  absl::StatusOr<LogQuery> query;
  if (status.ok()) {
    KnownJobs jobs(engine_, gate_.ReadsOf(call->caller()));
    const absl::StatusOr<const Job*> job = jobs.Find(request->job());
    status = job.ok() ? gate_.CheckJob(call->caller(), **job, jobs.NoSuchJob(request->job()))
                      : job.status();
    if (status.ok()) {
      query = LogQueryOf(*request, (*job)->id);
      status = query.status();
    }
  }
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  LogPosition position;
  if (request->has_after()) {
    position.begun = position.following = true;
    position.followed_id = static_cast<int64_t>(request->after());
  }
  std::make_shared<LogAnswer>(metrics_, *query, std::move(position), call, response)->ReadOn();
  return call;
}

}  // namespace muster::controller
