#include "common/metrics/http_server.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"
#include "common/metrics/http_deadlines.h"
#include "common/metrics/http_guard.h"
#include "common/os/loop_thread.h"
#include "common/os/tcp_listener.h"

namespace muster {
namespace {

constexpr uint64_t kMaxIdentityBytes = 1 << 20;
constexpr char kTlsPriorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

ServedResponse Plain(int status, absl::string_view text) {
  return {.status = status, .body = absl::StrCat(text, "\n")};
}

MHD_Result AddToHeaders(void* headers, MHD_ValueKind, const char* key, const char* value) {
  (*static_cast<decltype(ServedRequest::headers)*>(headers))[absl::AsciiStrToLower(key)] =
      value == nullptr ? "" : value;
  return MHD_YES;
}

MHD_Result AddToQuery(void* query, MHD_ValueKind, const char* key, const char* value) {
  static_cast<decltype(ServedRequest::query)*>(query)->emplace(key, value == nullptr ? "" : value);
  return MHD_YES;
}

// As a number; empty: it is of neither IPv4 nor IPv6.
std::string HostOf(const sockaddr* address) {
  const socklen_t size =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  char host[NI_MAXHOST] = "";
  (void)::getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

void DeleteText(void* text) { delete static_cast<std::string*>(text); }

MHD_Result Send(MHD_Connection* connection, ServedResponse response) {
  auto* body = new std::string(std::move(response.body));
  MHD_Response* answer = MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), body->data(), &DeleteText, body);
  if (answer == nullptr) {
    DeleteText(body);
    return MHD_NO;
  }
  MHD_add_response_header(answer, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type.c_str());
  MHD_add_response_header(answer, MHD_HTTP_HEADER_CONNECTION, "close");
  for (const auto& [name, value] : response.headers) {
    MHD_add_response_header(answer, name.c_str(), value.c_str());
  }
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), answer);
  MHD_destroy_response(answer);
  return queued;
}

// A request that a folder answers: its body arrives in parts, and its answer later. Owned by the
// connection; the answer's promise shares it.
struct LateAnswer {
  ServedRequest request;
  const HttpFolder* folder = nullptr;
  bool asked = false;
  Mutex mutex;
  std::optional<ServedResponse> response MUSTER_GUARDED_BY(mutex);
};
using SharedAnswer = std::shared_ptr<LateAnswer>;

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const Options& options, std::map<std::string, HttpHandler> handlers,
       std::map<std::string, HttpFolder> folders)
      : options_(options),
        handlers_(std::move(handlers)),
        folders_(std::move(folders)),
        deadlines_(options.timeout, {.size = options.max_connections * 3 / 4,
                                     .timeout = std::min(options.timeout, options.crowd_timeout),
                                     .displaced = options.displaced}) {}

  ~Impl() { Stop(); }

  absl::Status Start(UniqueFd socket) {
    if (!options_.identity_file.empty()) {
      MUSTER_ASSIGN_OR_RETURN(identity_, ReadIdentity());
    }
    listener_ = std::move(socket);
    daemon_ = StartDaemon();
    if (daemon_ == nullptr) {
      return absl::FailedPreconditionError(
          identity_.empty() ? "out of threads or descriptors"
                            : absl::StrCat("out of threads or descriptors, or the certificate in ",
                                           options_.identity_file, " cannot be used"));
    }
    if (!identity_.empty()) renewal_.Start(options_.refresh);
    return absl::OkStatus();
  }

  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    renewal_.Stop();
    {
      MutexLock lock(mutex_);
      while (due_ > 0) answered_.Wait(mutex_);
    }
    StopFormer();
    if (daemon_ != nullptr) MHD_stop_daemon(std::exchange(daemon_, nullptr));
    listener_.Reset();
  }

 private:
  absl::StatusOr<std::string> ReadIdentity() const {
    return PosixFileSystem().ReadFile(options_.identity_file, kMaxIdentityBytes);
  }

  // Null: no threads or descriptors are left, or the identity is not usable. Each daemon has a
  // descriptor of its own for the listening socket: it closes that, also when it does not start.
  MHD_Daemon* StartDaemon() {
    const int socket = ::fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0);
    if (socket < 0) return nullptr;
    std::vector<MHD_OptionItem> items;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME;
    if (!identity_.empty()) {
      flags |= MHD_USE_TLS;
      items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, identity_.data()});
      items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, identity_.data()});
      items.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kTlsPriorities)});
    }
    items.push_back({MHD_OPTION_END, 0, nullptr});
    return MHD_start_daemon(
        flags, /*port=*/0, nullptr, nullptr, &Impl::Serve, this, MHD_OPTION_LISTEN_SOCKET, socket,
        MHD_OPTION_THREAD_POOL_SIZE, static_cast<unsigned>(options_.threads),
        MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(options_.max_connections),
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, static_cast<unsigned>(options_.max_per_peer),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, options_.max_head_bytes, MHD_OPTION_NOTIFY_CONNECTION,
        &Impl::OnConnection, this, MHD_OPTION_NOTIFY_COMPLETED, &Impl::OnCompleted, this,
        MHD_OPTION_ARRAY, items.data(), MHD_OPTION_END);
  }

  void LookForRenewal() {
    if (former_ != nullptr && RealClock().SinceBoot() >= former_until_) StopFormer();
    const absl::StatusOr<std::string> now = ReadIdentity();
    // One renewal at a time: what is under way keeps its time.
    if (former_ == nullptr && daemon_ != nullptr && now.ok() && *now != identity_) Renew(*now);
  }

  // Another daemon takes over; this one ends what it has begun.
  void Renew(const std::string& identity) {
    const std::string before = std::exchange(identity_, identity);
    MHD_Daemon* next = StartDaemon();
    if (next == nullptr) {
      Log(LogLevel::kError, "http_certificate_not_renewed", {{"file", options_.identity_file}});
      identity_ = before;
      return;
    }
    const UniqueFd quiesced(MHD_quiesce_daemon(daemon_));
    former_ = std::exchange(daemon_, next);
    // Its last request may come so late, and the answer of a folder as long after that.
    former_until_ = RealClock().SinceBoot() + 2 * options_.timeout;
  }

  void StopFormer() {
    if (former_ != nullptr) MHD_stop_daemon(std::exchange(former_, nullptr));
  }

  static MHD_Result Serve(void* self, MHD_Connection* connection, const char* url,
                          const char* method, const char*, const char* body, size_t* body_bytes,
                          void** state) {
    auto& impl = *static_cast<Impl*>(self);
    if (*state != nullptr) {
      return impl.GoOn(connection, *static_cast<SharedAnswer*>(*state), body, body_bytes);
    }
    const absl::string_view verb = method;
    const std::string path = url;
    const auto found = impl.handlers_.find(path);
    const HttpFolder* folder = found == impl.handlers_.end() ? impl.FolderOf(path) : nullptr;
    const bool is_post = verb == MHD_HTTP_METHOD_POST;
    if (is_post && folder != nullptr && folder->max_body_bytes == 0) folder = nullptr;
    if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD &&
        !(is_post && folder != nullptr)) {
      return Send(connection, Plain(405, "only GET and HEAD are served here"));
    }
    if (folder == nullptr && !impl.MayRead(connection, path)) {
      ServedResponse refused =
          Plain(401, "the scrape token is wanted here: Authorization: Bearer TOKEN");
      refused.headers.emplace_back(MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"muster\"");
      return Send(connection, std::move(refused));
    }
    if (found == impl.handlers_.end() && folder == nullptr) {
      return Send(connection, Plain(404, "not found"));
    }
    ServedRequest request{.path = path, .is_post = is_post};
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &AddToQuery, &request.query);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, &AddToHeaders, &request.headers);
    if (folder == nullptr) return Send(connection, found->second(request));
    auto answer = std::make_shared<LateAnswer>();
    answer->request = std::move(request);
    answer->folder = folder;
    *state = new SharedAnswer(std::move(answer));
    return MHD_YES;
  }

  bool MayRead(MHD_Connection* connection, const std::string& path) const {
    if (options_.token.empty() || IsOpenToAll(path) || options_.open_paths.count(path) != 0) {
      return true;
    }
    const char* shown =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    return shown != nullptr && ShowsToken(shown, options_.token);
  }

  // The rest of the body, then the handler, then its answer.
  MHD_Result GoOn(MHD_Connection* connection, const SharedAnswer& answer, const char* body,
                  size_t* body_bytes) {
    if (*body_bytes > 0) {
      // What is too long is read to its end, so that the client hears why.
      std::string& all = answer->request.body;
      const size_t room = answer->folder->max_body_bytes + 1 - all.size();
      all.append(body, std::min(*body_bytes, room));
      *body_bytes = 0;
      return MHD_YES;
    }
    if (answer->request.body.size() > answer->folder->max_body_bytes) {
      return Send(connection, Plain(413, "the body is too long"));
    }
    if (!std::exchange(answer->asked, true)) return Ask(connection, answer);
    MutexLock lock(answer->mutex);
    return Send(connection, *std::move(answer->response));
  }

  MHD_Result Ask(MHD_Connection* connection, const SharedAnswer& answer) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return Send(connection, Plain(503, "stopping"));
      ++due_;
    }
    MHD_suspend_connection(connection);
    answer->folder->handler(std::move(answer->request),
                            [this, connection, answer](ServedResponse response) {
                              {
                                MutexLock lock(answer->mutex);
                                answer->response = std::move(response);
                              }
                              MHD_resume_connection(connection);
                              MutexLock lock(mutex_);
                              if (--due_ == 0) answered_.NotifyAll();
                            });
    return MHD_YES;
  }

  const HttpFolder* FolderOf(absl::string_view path) const {
    for (const auto& [folder, served] : folders_) {
      if (absl::StartsWith(path, folder)) return &served;
    }
    return nullptr;
  }

  static void OnCompleted(void*, MHD_Connection*, void** state, MHD_RequestTerminationCode) {
    delete static_cast<SharedAnswer*>(std::exchange(*state, nullptr));
  }

  static void OnConnection(void* self, MHD_Connection* connection, void**,
                           MHD_ConnectionNotificationCode what) {
    const MHD_ConnectionInfo* info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    HttpDeadlines& deadlines = static_cast<Impl*>(self)->deadlines_;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
      const MHD_ConnectionInfo* from =
          MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
      deadlines.OnOpened(info->connect_fd, HostOf(from->client_addr));
    } else {
      deadlines.OnClosing(info->connect_fd);
    }
  }

  const Options options_;
  const std::map<std::string, HttpHandler> handlers_;
  const std::map<std::string, HttpFolder> folders_;
  HttpDeadlines deadlines_;
  UniqueFd listener_;
  // Of the renewal's thread, while there is one.
  std::string identity_;  // what a daemon was given stays as it is while it starts
  MHD_Daemon* daemon_ = nullptr;
  MHD_Daemon* former_ = nullptr;  // has no socket to listen on any more
  absl::Duration former_until_;   // since boot
  Mutex mutex_;
  CondVar answered_;
  int due_ MUSTER_GUARDED_BY(mutex_) = 0;  // answers of folders
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  LoopThread renewal_{"http-renewal", [this] {
                        LookForRenewal();
                        return options_.refresh;
                      }};
};

HttpServer::HttpServer() = default;

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Stop() {
  if (impl_) impl_->Stop();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(
    const Options& options, std::map<std::string, HttpHandler> handlers,
    std::map<std::string, HttpFolder> folders) {
  auto listener = ListenTcp(options.listen);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<HttpServer> server(new HttpServer());
  server->address_ = listener->address;
  server->impl_ = std::make_unique<Impl>(options, std::move(handlers), std::move(folders));
  const absl::Status started = server->impl_->Start(std::move(listener->fd));
  if (!started.ok()) {
    return absl::Status(started.code(), absl::StrCat("cannot serve HTTP on ", server->address_,
                                                     ": ", started.message()));
  }
  return server;
}

std::map<std::string, HttpHandler> DaemonHandlers(
    std::vector<const prometheus::Collectable*> metrics, std::function<absl::Status()> healthy,
    std::function<absl::Status()> ready) {
  const auto probe = [](std::function<absl::Status()> check) -> HttpHandler {
    return [check = std::move(check)](const ServedRequest&) {
      const absl::Status status = check();
      if (status.ok()) return ServedResponse{.body = "ok\n"};
      return ServedResponse{.status = 503, .body = absl::StrCat(status.message(), "\n")};
    };
  };
  std::map<std::string, HttpHandler> handlers;
  handlers["/metrics"] = [metrics = std::move(metrics)](const ServedRequest&) {
    ServedResponse page{.content_type = "text/plain; version=0.0.4; charset=utf-8"};
    for (const prometheus::Collectable* some : metrics) {
      page.body += prometheus::TextSerializer().Serialize(some->Collect());
    }
    return page;
  };
  handlers["/healthz"] = probe(std::move(healthy));
  handlers["/readyz"] = probe(std::move(ready));
  return handlers;
}

}  // namespace muster
