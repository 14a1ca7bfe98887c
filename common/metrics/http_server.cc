#include "common/metrics/http_server.h"

#include <errno.h>
#include <httplib.h>
#include <string.h>
#include <sys/socket.h>

#include <deque>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/metrics/registry.h"

namespace muster {
namespace {

// A fixed pool with a bounded queue. When the queue is full the accepting thread waits, and new
// connections stay in the kernel's backlog; httplib's own pool would queue without end.
class BoundedPool final : public httplib::TaskQueue {
 public:
  BoundedPool(int threads, size_t max_waiting) : max_waiting_(max_waiting) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  }

  void enqueue(std::function<void()> task) override {
    MutexLock lock(mutex_);
    while (waiting_.size() >= max_waiting_) room_.Wait(mutex_);
    waiting_.push_back(std::move(task));
    work_.NotifyOne();
  }

  void shutdown() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      work_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    for (;;) {
      std::function<void()> task;
      {
        MutexLock lock(mutex_);
        while (waiting_.empty() && !stopping_) work_.Wait(mutex_);
        if (waiting_.empty()) return;
        task = std::move(waiting_.front());
        waiting_.pop_front();
        room_.NotifyOne();
      }
      task();
    }
  }

  const size_t max_waiting_;
  Mutex mutex_;
  CondVar work_;
  CondVar room_;
  std::deque<std::function<void()>> waiting_ MUSTER_GUARDED_BY(mutex_);
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

struct HostPort {
  std::string host;
  int port = 0;
};

absl::StatusOr<HostPort> ParseListen(const std::string& text) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &parsed.port) || parsed.port < 0 ||
      parsed.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("http listen address '", text,
                                                   "' is not HOST:PORT with a port of 0 to 65535"));
  }
  parsed.host = text.substr(0, colon);
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  return parsed;
}

// httplib's default is SO_REUSEPORT, with which two daemons would share a port without noticing.
void SetSocketOptions(socket_t socket) {
  const int yes = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const Options& options, std::map<std::string, HttpHandler> handlers)
      : handlers_(std::move(handlers)) {
    const auto timeout = absl::ToChronoMicroseconds(options.io_timeout);
    server_.set_read_timeout(timeout);
    server_.set_write_timeout(timeout);
    server_.set_keep_alive_max_count(1);
    server_.set_payload_max_length(0);
    server_.set_socket_options(SetSocketOptions);
    // httplib makes its pool once it counts itself as running; before that its stop() would do
    // nothing.
    server_.new_task_queue = [this, threads = options.threads, waiting = options.max_waiting] {
      running_.set_value();
      return new BoundedPool(threads, waiting);  // NOLINT: httplib takes ownership
    };
    server_.Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      Serve(request, response);
    });
  }

  // Returns the bound port, or -1 with errno.
  int Bind(const HostPort& where) {
    if (where.port == 0) return server_.bind_to_any_port(where.host);
    return server_.bind_to_port(where.host, where.port) ? where.port : -1;
  }

  void Start() {
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    running_.get_future().wait();
  }

  void Stop() {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }

 private:
  void Serve(const httplib::Request& request, httplib::Response& response) {
    const auto found = handlers_.find(request.path);
    if (found == handlers_.end()) {
      response.status = 404;
      response.set_content("not found\n", "text/plain; charset=utf-8");
      return;
    }
    HttpRequest converted;
    converted.path = request.path;
    converted.query.insert(request.params.begin(), request.params.end());
    HttpResponse made = found->second(converted);
    response.status = made.status;
    response.set_content(made.body, made.content_type);
  }

  const std::map<std::string, HttpHandler> handlers_;
  httplib::Server server_;
  std::promise<void> running_;
  std::thread thread_;
};

HttpServer::HttpServer() = default;

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Stop() {
  if (impl_) impl_->Stop();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(
    const Options& options, std::map<std::string, HttpHandler> handlers) {
  auto where = ParseListen(options.listen);
  if (!where.ok()) return where.status();
  std::unique_ptr<HttpServer> server(new HttpServer());
  server->impl_ = std::make_unique<Impl>(options, std::move(handlers));
  errno = 0;
  const int port = server->impl_->Bind(*where);
  if (port < 0) {
    const int why = errno;
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen for HTTP on ", options.listen, ": ",
                     why != 0 ? ::strerror(why) : "no such address"));
  }
  const bool ipv6 = where->host.find(':') != std::string::npos;
  server->address_ =
      ipv6 ? absl::StrCat("[", where->host, "]:", port) : absl::StrCat(where->host, ":", port);
  server->impl_->Start();
  return server;
}

std::map<std::string, HttpHandler> DaemonHandlers(std::function<std::string()> render,
                                                  std::function<absl::Status()> healthy,
                                                  std::function<absl::Status()> ready) {
  const auto probe = [](std::function<absl::Status()> check) -> HttpHandler {
    return [check = std::move(check)](const HttpRequest&) {
      const absl::Status status = check();
      if (status.ok()) return HttpResponse{.body = "ok\n"};
      return HttpResponse{.status = 503, .body = absl::StrCat(status.message(), "\n")};
    };
  };
  std::map<std::string, HttpHandler> handlers;
  handlers["/metrics"] = [render = std::move(render)](const HttpRequest&) {
    return HttpResponse{.content_type = kPrometheusContentType, .body = render()};
  };
  handlers["/healthz"] = probe(std::move(healthy));
  handlers["/readyz"] = probe(std::move(ready));
  return handlers;
}

}  // namespace muster
