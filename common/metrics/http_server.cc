#include "common/metrics/http_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/http_connection.h"
#include "common/metrics/http_listener.h"
#include "common/metrics/registry.h"

namespace muster {
namespace {

// After a failed accept (no descriptors left) nobody is accepted for so long.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

HttpResponse Plain(int status, absl::string_view text) {
  return {.status = status, .body = absl::StrCat(text, "\n")};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const Options& options, std::map<std::string, HttpHandler> handlers, HttpListener listener)
      : options_(options),
        handlers_(std::move(handlers)),
        listener_(std::move(listener)),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    MUSTER_CHECK(wake_.valid(), "no eventfd for the HTTP port");
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
    threads_.emplace_back([this] { Turn(); });
  }

  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      work_.NotifyAll();
    }
    Wake();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    listener_.fd.Reset();
  }

 private:
  struct Entry {  // of a connection, by its number
    uint64_t id = 0;
    std::string text;  // a head, or an answer
  };

  // The thread of the connections.
  void Turn() {
    std::vector<pollfd> polled;
    for (;;) {
      polled.clear();
      polled.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
      const bool accepts =
          connections_.size() < options_.max_connections && clock_.SinceBoot() >= accept_at_;
      polled.push_back({.fd = accepts ? listener_.fd.get() : -1, .events = POLLIN, .revents = 0});
      std::vector<uint64_t> ids;
      for (const auto& [id, connection] : connections_) {
        ids.push_back(id);
        const short wanted = connection.wanted();
        polled.push_back(
            {.fd = wanted == 0 ? -1 : connection.fd(), .events = wanted, .revents = 0});
      }
      (void)::poll(polled.data(), polled.size(), PollMillis());
      if (!TakeAnswers()) return;
      for (size_t i = 0; i < ids.size(); ++i) {
        if (polled[i + 2].revents != 0) Advance(ids[i]);
      }
      if (polled[1].revents != 0) Accept();
      EndLate();
    }
  }

  int PollMillis() {
    absl::Duration due = absl::InfiniteDuration();
    for (const auto& [id, connection] : connections_) {
      if (connection.state() != HttpConnection::State::kAsked) {
        due = std::min(due, connection.deadline());
      }
    }
    const absl::Duration now = clock_.SinceBoot();
    if (accept_at_ > now) due = std::min(due, accept_at_);
    if (due == absl::InfiniteDuration()) return -1;
    const int64_t millis = absl::ToInt64Milliseconds(due - now) + 1;
    return static_cast<int>(std::clamp<int64_t>(millis, 0, 60'000));
  }

  void Accept() {
    HttpPeer peer = AcceptHttp(listener_.fd.get());
    const absl::Duration now = clock_.SinceBoot();
    if (!peer.fd.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) accept_at_ = now + kAcceptPause;
      return;
    }
    size_t& same = peers_[peer.host];
    if (same >= options_.max_per_peer) return;
    ++same;
    connections_.emplace(++last_id_, HttpConnection(std::move(peer), options_.max_head_bytes,
                                                    now + options_.request_timeout));
  }

  void Advance(uint64_t id) {
    HttpConnection& connection = connections_.at(id);
    connection.OnReady();
    if (connection.state() == HttpConnection::State::kTooLarge) {
      Answer(connection, FormatHttpResponse(Plain(431, "the request's head is too large"), true));
    } else if (connection.state() == HttpConnection::State::kAsked) {
      MutexLock lock(mutex_);
      asked_.push_back({id, connection.head()});
      work_.NotifyOne();
    }
    if (connection.state() == HttpConnection::State::kOver) End(id);
  }

  void Answer(HttpConnection& connection, std::string text) {
    connection.Answer(std::move(text), clock_.SinceBoot() + options_.response_timeout);
  }

  // False: the server stops.
  bool TakeAnswers() {
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
    std::deque<Entry> answers;
    {
      MutexLock lock(mutex_);
      if (stopping_) return false;
      answers.swap(answers_);
    }
    for (Entry& answer : answers) {
      HttpConnection& connection = connections_.at(answer.id);
      Answer(connection, std::move(answer.text));
      if (connection.state() == HttpConnection::State::kOver) End(answer.id);
    }
    return true;
  }

  void EndLate() {
    const absl::Duration now = clock_.SinceBoot();
    std::vector<uint64_t> late;
    for (auto& [id, connection] : connections_) {
      // A handler takes the time that it takes.
      if (connection.state() == HttpConnection::State::kAsked) continue;
      if (connection.deadline() <= now) late.push_back(id);
    }
    for (uint64_t id : late) End(id);
  }

  void End(uint64_t id) {
    const auto it = connections_.find(id);
    const auto peer = peers_.find(it->second.host());
    if (--peer->second == 0) peers_.erase(peer);
    connections_.erase(it);
  }

  // The threads of the handlers.
  void Work() {
    for (;;) {
      Entry asked;
      {
        MutexLock lock(mutex_);
        while (asked_.empty() && !stopping_) work_.Wait(mutex_);
        if (stopping_) return;
        asked = std::move(asked_.front());
        asked_.pop_front();
      }
      std::string text = Serve(asked.text);
      MutexLock lock(mutex_);
      answers_.push_back({asked.id, std::move(text)});
      Wake();
    }
  }

  std::string Serve(const std::string& text) const {
    const absl::StatusOr<HttpHead> head = ParseHttpHead(text);
    if (!head.ok()) return FormatHttpResponse(Plain(400, head.status().message()), true);
    if (head->method != "GET" && head->method != "HEAD") {
      return FormatHttpResponse(Plain(405, "only GET and HEAD are served"), true);
    }
    const auto found = handlers_.find(head->request.path);
    const HttpResponse response =
        found == handlers_.end() ? Plain(404, "not found") : found->second(head->request);
    return FormatHttpResponse(response, head->method == "GET");
  }

  void Wake() {
    const uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
  }

  const Options options_;
  const std::map<std::string, HttpHandler> handlers_;
  HttpListener listener_;
  const UniqueFd wake_;
  RealClock clock_;
  // Of the thread of the connections.
  std::map<uint64_t, HttpConnection> connections_;
  std::map<std::string, size_t> peers_;  // connections of each address
  uint64_t last_id_ = 0;
  absl::Duration accept_at_;

  Mutex mutex_;
  CondVar work_;
  std::deque<Entry> asked_ MUSTER_GUARDED_BY(mutex_);
  std::deque<Entry> answers_ MUSTER_GUARDED_BY(mutex_);
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

HttpServer::HttpServer() = default;

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Stop() {
  if (impl_) impl_->Stop();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(
    const Options& options, std::map<std::string, HttpHandler> handlers) {
  auto listener = ListenForHttp(options.listen);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<HttpServer> server(new HttpServer());
  server->address_ = listener->address;
  server->impl_ = std::make_unique<Impl>(options, std::move(handlers), *std::move(listener));
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
