#include "controller/web/gateway/json_gateway.h"

#include <google/protobuf/util/json_util.h>
#include <grpc/support/time.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "common/rpc/token_file.h"
#include "controller/web/gateway/query_fields.h"
#include "controller/web/gateway/request_checks.h"
#include "muster/v1/access_service.grpc.pb.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "muster/v1/page_service.grpc.pb.h"

namespace muster::controller {
namespace {

// Below the HTTP server's own bound. An explanation of a long queue takes a second or two.
constexpr int64_t kCallSeconds = 20;

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

// Nothing that is shown here belongs into a cache, a frame or another type.
ServedResponse Json(int status, std::string body) {
  return {.status = status,
          .content_type = "application/json",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-cache"}, {"X-Content-Type-Options", "nosniff"}}};
}

ServedResponse ErrorJson(const absl::Status& status) {
  const nlohmann::json error = {{"code", absl::StatusCodeToString(status.code())},
                                {"message", std::string(status.message())}};
  const nlohmann::json body = {{"error", error}};
  return Json(HttpStatusOf(status.code()),
              body.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace));
}

// The answer, or that the asker has it already.
ServedResponse AnswerJson(const google::protobuf::Message& answer, const std::string& known) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string body;
  if (!google::protobuf::util::MessageToJsonString(answer, &body, options).ok()) {
    return ErrorJson(absl::InternalError("the answer cannot be written as JSON"));
  }
  const std::string tag = absl::StrCat("\"", absl::Hex(absl::HashOf(body)), "\"");
  ServedResponse response = known == tag ? Json(304, "") : Json(200, std::move(body));
  response.headers.emplace_back("ETag", tag);
  return response;
}

// Who calls, and with which token it is sent on.
struct Caller {
  std::string token;
  bool is_stranger = false;  // showed none: reads what is open
};

// UNAUTHENTICATED: it needs a token. Others: those of CheckOrigin.
absl::StatusOr<Caller> CallerOf(const ServedRequest& request, const std::string& open_read_token) {
  MUSTER_RETURN_IF_ERROR(CheckOrigin(request));
  const auto shown = request.headers.find("authorization");
  if (shown != request.headers.end()) {
    absl::string_view token = shown->second;
    if (absl::ConsumePrefix(&token, "Bearer ") && CheckTokenText(token).ok()) {
      return Caller{.token = std::string(token)};
    }
    return absl::UnauthenticatedError("authorization: not of the form 'Bearer TOKEN'");
  }
  if (request.is_post) return absl::UnauthenticatedError("a change needs a token");
  const auto host = request.headers.find("host");
  const bool is_here = host != request.headers.end() && NamesLoopback(host->second);
  if (open_read_token.empty() || !is_here) {
    return absl::UnauthenticatedError("a token is needed here");
  }
  return Caller{.token = open_read_token, .is_stranger = true};
}

// One request on its way to the service.
struct Call {
  ServedRequest request;
  std::string name;  // of the job, checkpoint or worker that the path names
  Caller caller;
  HttpDone done;
};

template <typename Request>
absl::Status FillRequest(const Call& call, Request& request) {
  if (call.request.is_post) {
    const auto parsed = google::protobuf::util::JsonStringToMessage(call.request.body, &request);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("the body: ", parsed.ToString()));
    }
  } else {
    MUSTER_RETURN_IF_ERROR(SetFields(call.request.query, request));
  }
  if constexpr (requires { request.mutable_job(); }) {
    uint64_t id = 0;
    if (absl::SimpleAtoi(call.name, &id)) {
      request.mutable_job()->set_id(id);
    } else if (!call.name.empty()) {
      request.mutable_job()->set_name(call.name);
    }
  }
  if constexpr (requires { request.set_checkpoint_id(0); }) {
    uint64_t id = 0;
    if (!absl::SimpleAtoi(call.name, &id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint ", call.name, ": a checkpoint is named by its number"));
    }
    request.set_checkpoint_id(id);
  }
  if constexpr (requires { request.set_worker(call.name); }) request.set_worker(call.name);
  return absl::OkStatus();
}

template <typename Request, typename Response>
struct OpenCall {
  Call call;
  grpc::ClientContext context;
  Request request;
  Response response;
};

// What strangers do not see of an answer: a spec may hold secrets in its environment.
template <typename Response>
void Conceal(Response& response) {
  if constexpr (requires { response.clear_written_spec(); }) {
    response.clear_spec();
    response.clear_written_spec();
  }
}

using Forward = std::function<void(Call call)>;

// A call of the service's method, which lives until its answer is sent.
template <typename Stub, typename Request, typename Response>
Forward To(Stub* stub, void (Stub::*method)(grpc::ClientContext*, const Request*, Response*,
                                            std::function<void(grpc::Status)>)) {
  return [stub, method](Call call) {
    auto open = std::make_shared<OpenCall<Request, Response>>();
    open->call = std::move(call);
    if (const absl::Status filled = FillRequest(open->call, open->request); !filled.ok()) {
      open->call.done(ErrorJson(filled));
      return;
    }
    AddToken(open->context, open->call.caller.token);
    open->context.set_deadline(gpr_time_from_seconds(kCallSeconds, GPR_TIMESPAN));
    (stub->*method)(&open->context, &open->request, &open->response, [open](grpc::Status status) {
      if (open->call.caller.is_stranger) Conceal(open->response);
      const auto& headers = open->call.request.headers;
      const auto known = headers.find("if-none-match");
      open->call.done(status.ok()
                          ? AnswerJson(open->response, known == headers.end() ? "" : known->second)
                          : ErrorJson(FromGrpc(status)));
    });
  };
}

}  // namespace

class JsonGateway::Routes {
 public:
  explicit Routes(std::shared_ptr<grpc::Channel> channel)
      : jobs_(v1::JobService::NewStub(channel)),
        page_(v1::PageService::NewStub(channel)),
        access_(v1::AccessService::NewStub(channel)) {
    using Jobs = v1::JobService::StubInterface::async_interface;
    using Page = v1::PageService::StubInterface::async_interface;
    Jobs* const jobs = jobs_->async();
    Page* const page = page_->async();
    using Access = v1::AccessService::StubInterface::async_interface;
    Access* const access = access_->async();
    get_["version"] = To(jobs, &Jobs::GetVersion);
    get_["whoami"] = To(access, &Access::WhoAmI);
    get_["jobs"] = To(page, &Page::FindJobs);
    get_["history"] = To(jobs, &Jobs::ListJobs);
    get_["jobs/*"] = To(jobs, &Jobs::GetJob);
    get_["jobs/*/curves"] = To(jobs, &Jobs::QueryMetrics);
    get_["jobs/*/ledger"] = To(jobs, &Jobs::GetGoodput);
    get_["jobs/*/checkpoints"] = To(jobs, &Jobs::ListCheckpoints);
    get_["jobs/*/logs"] = To(page, &Page::ReadLogs);
    get_["jobs/*/explain"] = To(jobs, &Jobs::ExplainJob);
    get_["workers"] = To(jobs, &Jobs::ListWorkers);
    get_["projects"] = To(jobs, &Jobs::ListProjects);
    post_["jobs/*/cancel"] = To(jobs, &Jobs::CancelJob);
    post_["jobs/*/control"] = To(jobs, &Jobs::ControlJob);
    post_["checkpoints/*/control"] = To(jobs, &Jobs::ControlCheckpoint);
    post_["workers/*/cordon"] = To(jobs, &Jobs::CordonWorker);
  }

  void Answer(Call call) const {
    std::vector<std::string> parts =
        absl::StrSplit(absl::StripPrefix(call.request.path, kFolder), '/');
    if (parts.size() > 1) call.name = std::exchange(parts[1], std::string(1, '*'));
    const std::string route = absl::StrJoin(parts, "/");
    const auto& routes = call.request.is_post ? post_ : get_;
    const auto found = routes.find(route);
    if (found == routes.end() || (parts.size() > 1 && call.name.empty())) {
      call.done(ErrorJson(absl::NotFoundError(
          absl::StrCat(call.request.path, ": nothing is served here for this method"))));
      return;
    }
    // What ranks print is nobody else's business, as it is with `muster logs`.
    if (call.caller.is_stranger && route == "jobs/*/logs") {
      call.done(ErrorJson(absl::UnauthenticatedError("logs need a token")));
      return;
    }
    // The token that opens reading says nothing of who reads.
    if (call.caller.is_stranger && route == "whoami") {
      call.done(ErrorJson(absl::UnauthenticatedError("who you are is told by a token")));
      return;
    }
    found->second(std::move(call));
  }

 private:
  const std::unique_ptr<v1::JobService::Stub> jobs_;
  const std::unique_ptr<v1::PageService::Stub> page_;
  const std::unique_ptr<v1::AccessService::Stub> access_;
  std::map<std::string, Forward> get_;
  std::map<std::string, Forward> post_;
};

JsonGateway::JsonGateway(std::shared_ptr<grpc::Channel> channel, Options options)
    : options_(std::move(options)), routes_(std::make_unique<Routes>(std::move(channel))) {}

JsonGateway::~JsonGateway() = default;

HttpFolder JsonGateway::Folder() {
  return {.handler =
              [this](ServedRequest request, HttpDone done) {
                absl::StatusOr<Caller> caller = CallerOf(request, options_.open_read_token);
                if (!caller.ok()) {
                  done(ErrorJson(caller.status()));
                  return;
                }
                routes_->Answer({.request = std::move(request),
                                 .name = "",
                                 .caller = *std::move(caller),
                                 .done = std::move(done)});
              },
          .max_body_bytes = kMaxBodyBytes};
}

}  // namespace muster::controller
