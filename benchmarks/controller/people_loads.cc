#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/controller/closed_loop.h"
#include "benchmarks/controller/loads.h"
#include "benchmarks/controller/submit_stream.h"
#include "benchmarks/controller/target.h"
#include "common/rpc/token.h"
#include "etcd_kv.grpc.pb.h"

namespace muster::benchmarks {
namespace {

template <typename Request, typename Response>
struct Call {
  grpc::ClientContext context;
  Request request;
  Response response;
};

struct Options {
  std::string data_dir;
  std::string spec;  // a file
  std::string address;
  size_t value_bytes = 256;
  uint32_t page_size = 100;
  bool own_names = false;
  LoopShape shape;
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return text.str();
}

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(value.status().ToString());
  return *std::move(value);
}

void Submit(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const v1::SubmitRequest request = OrThrow(SubmitRequestOf(ReadAll(options.spec)));
  const auto stubs = PeopleStubs(target, options.shape.clients);
  ClosedLoop loop(options.shape, [&](int client, std::function<void(bool)> done) {
    auto call = std::make_shared<Call<v1::SubmitRequest, v1::SubmitResponse>>();
    AddToken(call->context, target.token);
    call->request = request;
    call->request.set_idempotency_key(FreshKey());
    stubs[client]->async()->Submit(&call->context, &call->request, &call->response,
                                   [call, done = std::move(done)](grpc::Status status) {
                                     done(status.ok() && call->response.job_id() != 0);
                                   });
  });
  Json line = {{"load", "submit"}};
  line.update(loop.Run());
  PrintLine(line);
}

void SubmitOnStreams(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  StreamLoad load;
  load.request = OrThrow(SubmitRequestOf(ReadAll(options.spec)));
  load.own_names = options.own_names;
  load.in_flight = options.shape.in_flight;
  load.token = target.token;
  const auto stubs = PeopleStubs(target, options.shape.clients);
  load.measured_from = SteadySeconds() + options.shape.warm_up_seconds;
  load.end = load.measured_from + options.shape.seconds;
  std::vector<std::shared_ptr<SubmitStreamClient>> clients;
  for (const auto& stub : stubs) clients.push_back(SubmitStreamClient::Start(*stub, load));
  for (const auto& client : clients) client->Join();
  PrintLine({{"load", "submit-stream"},
             {"clients", options.shape.clients},
             {"in_flight", load.in_flight},
             {"calls", load.answered.load()},
             {"per_s", static_cast<double>(load.answered) / options.shape.seconds},
             {"failed", load.failed.load()},
             {"last_error", load.last_error},
             {"latency_of_messages", load.latencies.Summary()}});
}

void List(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const auto stubs = PeopleStubs(target, options.shape.clients);
  std::atomic<uint64_t> rows = 0;
  ClosedLoop loop(options.shape, [&](int client, std::function<void(bool)> done) {
    auto call = std::make_shared<Call<v1::ListJobsRequest, v1::ListJobsResponse>>();
    AddToken(call->context, target.token);
    call->request.set_page_size(options.page_size);
    stubs[client]->async()->ListJobs(&call->context, &call->request, &call->response,
                                     [call, &rows, done = std::move(done)](grpc::Status status) {
                                       rows = static_cast<uint64_t>(call->response.jobs_size());
                                       done(status.ok());
                                     });
  });
  Json line = {{"load", "list"}};
  line.update(loop.Run());
  line["rows_a_page"] = rows.load();
  PrintLine(line);
}

void Etcd(const Options& options) {
  std::vector<std::unique_ptr<etcdserverpb::KV::Stub>> stubs;
  for (int i = 0; i < options.shape.clients; ++i) {
    stubs.push_back(etcdserverpb::KV::NewStub(LastingChannel(options.address)));
  }
  const std::string value(options.value_bytes, 'v');
  ClosedLoop loop(options.shape, [&](int client, std::function<void(bool)> done) {
    auto call = std::make_shared<Call<etcdserverpb::PutRequest, etcdserverpb::PutResponse>>();
    call->request.set_key(absl::StrCat("jobs/", FreshKey()));
    call->request.set_value(value);
    stubs[client]->async()->Put(
        &call->context, &call->request, &call->response,
        [call, done = std::move(done)](grpc::Status status) { done(status.ok()); });
  });
  Json line = {{"load", "etcd"}, {"value_bytes", options.value_bytes}};
  line.update(loop.Run());
  PrintLine(line);
}

void AddShape(CLI::App& command, LoopShape& shape) {
  command.add_option("--clients", shape.clients)->capture_default_str();
  command.add_option("--in-flight", shape.in_flight, "calls of each client")->capture_default_str();
  command.add_option("--seconds", shape.seconds)->capture_default_str();
  command.add_option("--warm-up", shape.warm_up_seconds, "seconds")->capture_default_str();
  command.add_option("--most", shape.most, "calls in all; 0: no bound")->capture_default_str();
}

}  // namespace

void AddPeopleLoads(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* submit = app.add_subcommand("submit", "durable submits");
  submit->add_option("--data-dir", options->data_dir, "of musterd")->required();
  submit->add_option("--spec", options->spec, "a job file")->required();
  AddShape(*submit, options->shape);
  submit->callback([options] { Submit(*options); });

  CLI::App* stream = app.add_subcommand("submit-stream", "durable submits over SubmitJobs streams");
  stream->add_option("--data-dir", options->data_dir, "of musterd")->required();
  stream->add_option("--spec", options->spec, "a job file")->required();
  stream->add_flag("--own-names", options->own_names, "each job has a name of its own");
  AddShape(*stream, options->shape);
  stream->callback([options] { SubmitOnStreams(*options); });

  CLI::App* list = app.add_subcommand("list", "ListJobs");
  list->add_option("--data-dir", options->data_dir, "of musterd")->required();
  list->add_option("--page-size", options->page_size)->capture_default_str();
  AddShape(*list, options->shape);
  list->callback([options] { List(*options); });

  CLI::App* etcd = app.add_subcommand("etcd", "puts of fresh keys into etcd");
  etcd->add_option("--address", options->address)->required();
  etcd->add_option("--value-bytes", options->value_bytes)->capture_default_str();
  AddShape(*etcd, options->shape);
  etcd->callback([options] { Etcd(*options); });
}

}  // namespace muster::benchmarks
