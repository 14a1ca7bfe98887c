#include "common/metrics/http_server.h"

#include <microhttpd.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/metrics/http_deadlines.h"
#include "common/os/tcp_listener.h"

namespace muster {
namespace {

HttpResponse Plain(int status, absl::string_view text) {
  return {.status = status, .body = absl::StrCat(text, "\n")};
}

MHD_Result AddToQuery(void* query, MHD_ValueKind, const char* key, const char* value) {
  static_cast<decltype(HttpRequest::query)*>(query)->emplace(key, value == nullptr ? "" : value);
  return MHD_YES;
}

void DeleteText(void* text) { delete static_cast<std::string*>(text); }

MHD_Result Send(MHD_Connection* connection, HttpResponse response) {
  auto* body = new std::string(std::move(response.body));
  MHD_Response* answer = MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), body->data(), &DeleteText, body);
  if (answer == nullptr) {
    DeleteText(body);
    return MHD_NO;
  }
  MHD_add_response_header(answer, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type.c_str());
  MHD_add_response_header(answer, MHD_HTTP_HEADER_CONNECTION, "close");
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), answer);
  MHD_destroy_response(answer);
  return queued;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const Options& options, std::map<std::string, HttpHandler> handlers)
      : handlers_(std::move(handlers)), deadlines_(options.timeout) {}

  ~Impl() { Stop(); }

  // False: no threads or descriptors are left. Takes the socket in either case.
  bool Start(const Options& options, UniqueFd socket) {
    const auto limit = static_cast<unsigned>(options.max_connections);
    const auto per_peer = static_cast<unsigned>(options.max_per_peer);
    daemon_ =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, /*port=*/0, nullptr, nullptr,
                         &Impl::Serve, this, MHD_OPTION_LISTEN_SOCKET, socket.get(),
                         MHD_OPTION_THREAD_POOL_SIZE, static_cast<unsigned>(options.threads),
                         MHD_OPTION_CONNECTION_LIMIT, limit, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                         per_peer, MHD_OPTION_CONNECTION_MEMORY_LIMIT, options.max_head_bytes,
                         MHD_OPTION_NOTIFY_CONNECTION, &Impl::OnConnection, this, MHD_OPTION_END);
    if (daemon_ == nullptr) return false;
    (void)socket.Release();
    return true;
  }

  void Stop() {
    if (daemon_ != nullptr) MHD_stop_daemon(std::exchange(daemon_, nullptr));
  }

 private:
  static MHD_Result Serve(void* self, MHD_Connection* connection, const char* url,
                          const char* method, const char*, const char*, size_t*, void**) {
    return Send(connection, static_cast<Impl*>(self)->Answer(connection, url, method));
  }

  HttpResponse Answer(MHD_Connection* connection, const std::string& path,
                      absl::string_view method) const {
    if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD) {
      return Plain(405, "only GET and HEAD are served");
    }
    const auto found = handlers_.find(path);
    if (found == handlers_.end()) return Plain(404, "not found");
    HttpRequest request{.path = path, .query = {}};
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &AddToQuery, &request.query);
    return found->second(request);
  }

  static void OnConnection(void* self, MHD_Connection* connection, void**,
                           MHD_ConnectionNotificationCode what) {
    const MHD_ConnectionInfo* info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    HttpDeadlines& deadlines = static_cast<Impl*>(self)->deadlines_;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
      deadlines.OnOpened(info->connect_fd);
    } else {
      deadlines.OnClosing(info->connect_fd);
    }
  }

  const std::map<std::string, HttpHandler> handlers_;
  HttpDeadlines deadlines_;
  MHD_Daemon* daemon_ = nullptr;
};

HttpServer::HttpServer() = default;

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Stop() {
  if (impl_) impl_->Stop();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(
    const Options& options, std::map<std::string, HttpHandler> handlers) {
  auto listener = ListenTcp(options.listen);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<HttpServer> server(new HttpServer());
  server->address_ = listener->address;
  server->impl_ = std::make_unique<Impl>(options, std::move(handlers));
  if (!server->impl_->Start(options, std::move(listener->fd))) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot serve HTTP on ", server->address_, ": out of threads or descriptors"));
  }
  return server;
}

std::map<std::string, HttpHandler> DaemonHandlers(
    std::vector<const prometheus::Collectable*> metrics, std::function<absl::Status()> healthy,
    std::function<absl::Status()> ready) {
  const auto probe = [](std::function<absl::Status()> check) -> HttpHandler {
    return [check = std::move(check)](const HttpRequest&) {
      const absl::Status status = check();
      if (status.ok()) return HttpResponse{.body = "ok\n"};
      return HttpResponse{.status = 503, .body = absl::StrCat(status.message(), "\n")};
    };
  };
  std::map<std::string, HttpHandler> handlers;
  handlers["/metrics"] = [metrics = std::move(metrics)](const HttpRequest&) {
    HttpResponse page{.content_type = "text/plain; version=0.0.4; charset=utf-8"};
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
