// gRPC handlers of EnrollService, on the people's port, and of RenewService, on the workers'. What
// waits for the disk is done on one thread of its own, call by call, and of a bounded queue.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/api/calls/rate_limiter.h"
#include "controller/api/calls/service_call.h"
#include "controller/enroll/enroller.h"
#include "muster/v1/enroll_service.grpc.pb.h"

namespace muster::controller {

// The thread that alone calls `enroller`, but for CheckCertificate. Outlives the services' calls.
class EnrollThread {
 public:
  static constexpr size_t kMaxWaiting = 256;

  explicit EnrollThread(Enroller& enroller);
  // Requires that no call is under way.
  ~EnrollThread();
  EnrollThread(const EnrollThread&) = delete;
  EnrollThread& operator=(const EnrollThread&) = delete;

  Enroller& enroller() { return enroller_; }
  // False: too many calls wait.
  bool Enqueue(std::function<void()> work) MUSTER_EXCLUDES(mutex_);
  // As Enroller::CopyTo, on the thread; waits for its end.
  absl::Status CopyTo(const std::string& path) MUSTER_EXCLUDES(mutex_);

 private:
  void Run() MUSTER_EXCLUDES(mutex_);

  Enroller& enroller_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> work_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

struct EnrollServiceOptions {
  // Of each address, for the calls that need no token: machines that join at once behind one
  // address wait for one another, and who guesses gets nowhere.
  RateLimit joins = {.per_second = 2, .burst = 30};
  uint32_t worker_port = 0;
  std::string worker_scrape_token;  // what a machine that joins is told; empty: nothing
  // Ends the streams that certificates of this name opened.
  std::function<void(const std::string& name)> close_streams;
};

class EnrollService final : public v1::EnrollService::CallbackService {
 public:
  // All references outlive the service. `gate`: of people.
  EnrollService(EnrollThread& thread, CallGate& gate, Clock& clock, EnrollServiceOptions options)
      : enroll_thread_(thread),
        gate_(gate),
        clock_(clock),
        options_(std::move(options)),
        joins_(options_.joins) {}

  // Whether the method of this path ("/package.Service/Method") is for who has no token yet.
  static bool IsOpen(absl::string_view path);

  grpc::ServerUnaryReactor* CreateJoinToken(grpc::CallbackServerContext* context,
                                            const v1::CreateJoinTokenRequest* request,
                                            v1::CreateJoinTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListJoinTokens(grpc::CallbackServerContext* context,
                                           const v1::ListJoinTokensRequest* request,
                                           v1::ListJoinTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeJoinToken(grpc::CallbackServerContext* context,
                                            const v1::RevokeJoinTokenRequest* request,
                                            v1::RevokeJoinTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListCertificates(grpc::CallbackServerContext* context,
                                             const v1::ListCertificatesRequest* request,
                                             v1::ListCertificatesResponse* response) override;
  grpc::ServerUnaryReactor* RevokeCertificate(grpc::CallbackServerContext* context,
                                              const v1::RevokeCertificateRequest* request,
                                              v1::RevokeCertificateResponse* response) override;
  grpc::ServerUnaryReactor* GetAuthority(grpc::CallbackServerContext* context,
                                         const v1::GetAuthorityRequest* request,
                                         v1::GetAuthorityResponse* response) override;
  grpc::ServerUnaryReactor* Enroll(grpc::CallbackServerContext* context,
                                   const v1::EnrollRequest* request,
                                   v1::EnrollResponse* response) override;

 private:
  absl::Status AllowJoin(grpc::CallbackServerContext& context, const char* method)
      MUSTER_EXCLUDES(mutex_);
  absl::Status FillRevoked(const std::string& name, v1::RevokeCertificateResponse& response);
  // `object` becomes what the record says of it.
  absl::Status FillEnrolled(const v1::EnrollRequest& request, const std::string& peer,
                            v1::EnrollResponse& response, std::string& object);

  EnrollThread& enroll_thread_;
  CallGate& gate_;
  Clock& clock_;
  const EnrollServiceOptions options_;
  Mutex mutex_;
  RateLimiter joins_ MUSTER_GUARDED_BY(mutex_);
};

class RenewService final : public v1::RenewService::CallbackService {
 public:
  // Both references outlive the service. `gate`: of agents.
  RenewService(EnrollThread& thread, CallGate& gate) : enroll_thread_(thread), gate_(gate) {}

  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request,
                                  v1::RenewResponse* response) override;

 private:
  EnrollThread& enroll_thread_;
  CallGate& gate_;
};

}  // namespace muster::controller
