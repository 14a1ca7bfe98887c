#include "tests/controller/autoscale/fake_kubernetes.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::testing {
namespace {

constexpr char kScale[] = "/apis/apps/v1/namespaces/ml/statefulsets/gpu/scale";
constexpr char kDeploymentScale[] = "/apis/apps/v1/namespaces/ml/deployments/gpu/scale";
constexpr char kPods[] = "/api/v1/namespaces/ml/pods/";

void Fail(int code, const std::string& message, httplib::Response& response) {
  const nlohmann::json status = {
      {"kind", "Status"}, {"status", "Failure"}, {"message", message}, {"code", code}};
  response.status = code;
  response.set_content(status.dump(), "application/json");
}

}  // namespace

FakeKubernetes::FakeKubernetes(const TlsFiles& files)
    : server_(std::make_unique<httplib::SSLServer>(files.cert.c_str(), files.key.c_str())) {
  const auto answer = [this](const httplib::Request& request, httplib::Response& response) {
    Answer(request, response);
  };
  server_->Get(".*", answer);
  server_->Put(".*", answer);
  server_->Patch(".*", answer);
  server_->set_keep_alive_timeout(1);
  port_ = server_->bind_to_any_port("127.0.0.1");
  EXPECT_GT(port_, 0);
  thread_ = std::thread([this] { server_->listen_after_bind(); });
  while (!server_->is_running()) std::this_thread::yield();
}

FakeKubernetes::~FakeKubernetes() {
  server_->stop();
  thread_.join();
}

std::string FakeKubernetes::url() const { return absl::StrCat("https://127.0.0.1:", port_); }

void FakeKubernetes::SetToken(const std::string& token) {
  MutexLock lock(mutex_);
  token_ = token;
}

void FakeKubernetes::SetReplicas(uint32_t replicas) {
  MutexLock lock(mutex_);
  replicas_ = replicas;
  ++version_;
}

uint32_t FakeKubernetes::replicas() const {
  MutexLock lock(mutex_);
  return replicas_;
}

std::map<std::string, std::string> FakeKubernetes::marks() const {
  MutexLock lock(mutex_);
  return marks_;
}

std::vector<std::string> FakeKubernetes::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

void FakeKubernetes::Disturb(std::function<int(const std::string&)> disturb) {
  MutexLock lock(mutex_);
  disturb_ = std::move(disturb);
}

void FakeKubernetes::Answer(const httplib::Request& request, httplib::Response& response) {
  std::function<int(const std::string&)> disturb;
  {
    MutexLock lock(mutex_);
    requests_.push_back(absl::StrCat(request.method, " ", request.path));
    disturb = disturb_;
  }
  const int code = disturb ? disturb(request.method) : 0;
  if (code == 200) {  // an answer that is no scale
    response.set_content("<html>a login page</html>", "text/html");
    return;
  }
  if (code == kDoneAndCut) {
    MutexLock lock(mutex_);
    AnswerRightLocked(request, response);
    response.body.clear();
  }
  if (code == kCut || code == kDoneAndCut) {
    const size_t promised = 500;
    response.set_content_provider(promised, "application/json",
                                  [](size_t, size_t, httplib::DataSink& sink) {
                                    sink.write("{\"spec\": ", 9);
                                    return false;
                                  });
    return;
  }
  if (code != 0) {
    if (code == 429) response.set_header("Retry-After", "7");
    return Fail(code, "as the test wants", response);
  }
  MutexLock lock(mutex_);
  AnswerRightLocked(request, response);
}

void FakeKubernetes::AnswerRightLocked(const httplib::Request& request,
                                       httplib::Response& response) {
  if (request.get_header_value("Authorization") != absl::StrCat("Bearer ", token_)) {
    return Fail(401, "Unauthorized", response);
  }
  if (request.method == "PATCH" && absl::StartsWith(request.path, kPods)) {
    if (request.get_header_value("Content-Type") != "application/merge-patch+json") {
      return Fail(415, "the body of the request was in an unknown format", response);
    }
    const std::string pod = request.path.substr(sizeof kPods - 1);
    if (pod == "gone") return Fail(404, "pods \"gone\" not found", response);
    const auto body = nlohmann::json::parse(request.body);
    marks_[pod] = body["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"];
    response.set_content("{}", "application/json");
    return;
  }
  if (request.path != kScale && request.path != kDeploymentScale) {
    return Fail(404, "statefulsets.apps not found", response);
  }
  if (request.method == "PUT") {
    const auto body = nlohmann::json::parse(request.body);
    if (request.get_header_value("Content-Type") != "application/json" || body["kind"] != "Scale" ||
        body["apiVersion"] != "autoscaling/v1") {
      return Fail(400, "no Scale", response);
    }
    if (body["metadata"]["resourceVersion"] != absl::StrCat(version_)) {
      return Fail(409, "the object has been modified", response);
    }
    replicas_ = body["spec"]["replicas"];
    ++version_;
  }
  nlohmann::json scale = {
      {"kind", "Scale"},
      {"apiVersion", "autoscaling/v1"},
      {"metadata", {{"name", "gpu"}, {"resourceVersion", absl::StrCat(version_)}}},
      {"spec", nlohmann::json::object()}};
  // As the real one: what is zero is left out.
  if (replicas_ > 0) scale["spec"]["replicas"] = replicas_;
  response.set_content(scale.dump(), "application/json");
}

}  // namespace muster::testing
