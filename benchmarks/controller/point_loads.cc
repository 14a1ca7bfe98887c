// Durable metric points: agents' Bulk streams at full speed while a reader asks for a curve.
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/controller/closed_loop.h"
#include "benchmarks/controller/loads.h"
#include "benchmarks/controller/sim_agent.h"
#include "benchmarks/controller/target.h"
#include "common/rpc/token.h"

namespace muster::benchmarks {
namespace {

constexpr const char* kNames[] = {"loss",         "lr",           "grad_norm",
                                  "step_seconds", "data_seconds", "samples_per_second",
                                  "memory_bytes", "epoch"};

struct Options {
  std::string data_dir;
  int streams = 2;
  int records = 100;   // a batch
  int unanswered = 4;  // batches on their way on one stream
  int points = 8;      // a record
  double seconds = 3;
  bool read = true;
};

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(value.status().ToString());
  return *std::move(value);
}

// One agent's Bulk stream: writes while fewer than `unanswered` batches wait for their
// acknowledgement, until Finish. Used from the main thread and gRPC's reactions.
class BulkLoad final : public grpc::ClientBidiReactor<v1::BulkBatch, v1::BulkAck> {
 public:
  BulkLoad(v1::WorkerService::Stub& stub, const Target& target, const SimAgent& agent,
           const v1::StartRanks& start, const Options& options)
      : options_(options) {
    AddToken(context_, target.token);
    batch_.mutable_hello()->set_worker_name(agent.name());
    batch_.mutable_hello()->set_incarnation(agent.incarnation());
    for (int i = 0; i < options.records; ++i) {
      v1::MetricRecord* record = batch_.add_metrics();
      record->set_job_id(start.fence().job_id());
      record->set_attempt(start.fence().attempt());
      record->set_generation(start.fence().generation());
      record->set_rank(start.ranks(0).rank());
      for (int p = 0; p < options.points; ++p) {
        record->add_points()->set_name(kNames[p % std::size(kNames)]);
      }
    }
    stub.async()->Bulk(&context_, this);
    AddHold();
    StartRead(&ack_);
    StartCall();
    std::lock_guard<std::mutex> lock(mutex_);
    WriteOnLocked();
  }

  // Ends after what is on its way; returns the batches that are durable.
  uint64_t Finish() {
    std::unique_lock<std::mutex> lock(mutex_);
    finishing_ = true;
    over_.wait(lock, [this] { return failed_ || acked_ == sent_; });
    if (!failed_) {
      while (writing_) over_.wait(lock);
      StartWritesDone();
      RemoveHold();
    }
    over_.wait(lock, [this] { return done_; });
    return acked_;
  }
  uint64_t acked() {
    std::lock_guard<std::mutex> lock(mutex_);
    return acked_;
  }

 private:
  void WriteOnLocked() {
    if (writing_ || finishing_ || failed_) return;
    if (sent_ - acked_ >= static_cast<uint64_t>(options_.unanswered)) return;
    batch_.set_batch_id(++sent_);
    if (sent_ == 2) batch_.clear_hello();
    const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
    for (v1::MetricRecord& record : *batch_.mutable_metrics()) {
      record.set_seq(++seq_);
      for (v1::MetricPoint& point : *record.mutable_points()) {
        point.set_step(static_cast<int64_t>(seq_));
        point.set_time_ms(now_ms);
        point.set_value(1.0 / static_cast<double>(seq_));
      }
    }
    writing_ = true;
    StartWrite(&batch_);
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (ok) WriteOnLocked();
    over_.notify_all();
  }
  void OnReadDone(bool ok) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!ok) {
      if (!finishing_ || acked_ != sent_) failed_ = true;
      if (failed_) RemoveHold();
      over_.notify_all();
      return;
    }
    acked_ = ack_.batch_id();
    WriteOnLocked();
    over_.notify_all();
    StartRead(&ack_);
  }
  void OnDone(const grpc::Status&) override {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    over_.notify_all();
  }

  const Options& options_;
  grpc::ClientContext context_;
  v1::BulkBatch batch_;  // reused: only numbers change
  v1::BulkAck ack_;
  std::mutex mutex_;
  std::condition_variable over_;
  uint64_t sent_ = 0;
  uint64_t acked_ = 0;
  uint64_t seq_ = 0;
  bool writing_ = false;
  bool finishing_ = false;
  bool failed_ = false;
  bool done_ = false;
};

// One agent with one running rank of a job of its own.
struct Source {
  std::unique_ptr<v1::WorkerService::Stub> control;
  std::unique_ptr<v1::WorkerService::Stub> bulk;
  std::shared_ptr<SimAgent> agent;
  v1::StartRanks start;
};

uint64_t SubmitOne(v1::JobService::Stub& stub, const Target& target) {
  grpc::ClientContext context;
  AddToken(context, target.token);
  v1::SubmitRequest request = OrThrow(SubmitRequestOf(
      "name: points\nplacement: {wait_for_capacity: true}\n"
      "train: {model: {mlp: {hidden: [8]}}, data: {synthetic: {samples: 64, shape: [8]}},"
      " batch_size: 64, steps: 10}\n"));
  request.set_idempotency_key(FreshKey());
  v1::SubmitResponse response;
  const grpc::Status status = stub.Submit(&context, request, &response);
  if (!status.ok()) throw std::runtime_error("submit: " + status.error_message());
  return response.job_id();
}

// The points that the controller has of the source's rank, by one name; of a page's worth.
Json ReadLoad(v1::JobService::Stub& stub, const Target& target, uint64_t job_id, double seconds) {
  LoopShape shape;
  shape.seconds = seconds;
  ClosedLoop loop(shape, [&](int, std::function<void(bool)> done) {
    struct Call {
      grpc::ClientContext context;
      v1::QueryMetricsRequest request;
      v1::QueryMetricsResponse response;
    };
    auto call = std::make_shared<Call>();
    AddToken(call->context, target.token);
    call->request.mutable_job()->set_id(job_id);
    call->request.add_names("loss");
    call->request.set_page_size(500);
    stub.async()->QueryMetrics(
        &call->context, &call->request, &call->response,
        [call, done = std::move(done)](grpc::Status status) { done(status.ok()); });
  });
  return loop.Run();
}

void Points(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const auto people = PeopleStubs(target, 1);
  AgentCounts counts;
  std::mutex mutex;
  std::condition_variable came;
  std::vector<Source> sources(options.streams);
  size_t started = 0;
  for (int i = 0; i < options.streams; ++i) {
    Source& source = sources[i];
    source.control = v1::WorkerService::NewStub(LastingChannel(target.workers));
    source.bulk = v1::WorkerService::NewStub(LastingChannel(target.workers));
    source.agent = SimAgent::Connect(*source.control,
                                     {.name = absl::StrCat("points-", i),
                                      .slots = 1,
                                      .pool = "default",
                                      .token = target.token,
                                      .ranks_end = false,
                                      .latest = {},
                                      .on_start =
                                          [&, i](const v1::StartRanks& start) {
                                            std::lock_guard<std::mutex> lock(mutex);
                                            sources[i].start = start;
                                            ++started;
                                            came.notify_all();
                                          }},
                                     counts);
  }
  for (int i = 0; i < options.streams; ++i) SubmitOne(*people[0], target);
  {
    std::unique_lock<std::mutex> lock(mutex);
    if (!came.wait_for(lock, std::chrono::seconds(20), [&] { return started == sources.size(); })) {
      throw std::runtime_error("the jobs did not start");
    }
  }
  std::vector<std::unique_ptr<BulkLoad>> loads;
  const double began = SteadySeconds();
  for (Source& source : sources) {
    loads.push_back(
        std::make_unique<BulkLoad>(*source.bulk, target, *source.agent, source.start, options));
  }
  Json reads;
  if (options.read) {
    reads = ReadLoad(*people[0], target, sources[0].start.fence().job_id(), options.seconds);
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  }
  uint64_t batches = 0;
  for (const auto& load : loads) batches += load->acked();
  const double took = SteadySeconds() - began;
  for (const auto& load : loads) load->Finish();
  for (Source& source : sources) source.agent->Hang();
  for (Source& source : sources) source.agent->Join();
  const double points = static_cast<double>(batches) * options.records * options.points;
  PrintLine({{"load", "points"},
             {"streams", options.streams},
             {"points_a_batch", options.records * options.points},
             {"points", points},
             {"per_s", points / took},
             {"reads", reads}});
}

}  // namespace

void AddPointLoads(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* points = app.add_subcommand("points", "metric points through Bulk streams");
  points->add_option("--data-dir", options->data_dir, "of musterd")->required();
  points->add_option("--streams", options->streams)->capture_default_str();
  points->add_option("--records", options->records, "of one batch")->capture_default_str();
  points->add_option("--points", options->points, "of one record")->capture_default_str();
  points->add_option("--unanswered", options->unanswered, "batches of a stream on their way")
      ->capture_default_str();
  points->add_option("--seconds", options->seconds)->capture_default_str();
  points->add_flag("--read,!--no-read", options->read, "ask for a curve meanwhile");
  points->callback([options] { Points(*options); });
}

}  // namespace muster::benchmarks
