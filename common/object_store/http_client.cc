#include "common/object_store/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/deadline.h"

namespace muster {
namespace {

constexpr uint64_t kKeptBytesOfErrors = 4096;
constexpr uint64_t kReadBytesOfErrors = 64 << 10;  // so that the connection can be used again
constexpr size_t kMaxHeaderBytes = 8192;           // of one
constexpr size_t kMaxHeaders = 100;
constexpr size_t kMaxIdleHandles = 64;
constexpr long kMaxRedirects = 5;              // NOLINT(google-runtime-int): curl's type
constexpr long kReceiveBufferBytes = 1 << 18;  // NOLINT(google-runtime-int)

// Where the answer of one transfer goes.
struct Transfer {
  CURL* curl = nullptr;
  const HttpRequest* request = nullptr;
  HttpResponse response;
};

int CodeOf(CURL* curl) {
  long code = 0;  // NOLINT(google-runtime-int)
  ::curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  return static_cast<int>(code);
}

size_t OnHeader(char* data, size_t, size_t bytes, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  const absl::string_view line(data, bytes);
  if (absl::StartsWith(line, "HTTP/")) {  // of a redirect's target, too
    transfer.response.headers.clear();
    return bytes;
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || line.size() > kMaxHeaderBytes ||
      transfer.response.headers.size() >= kMaxHeaders) {
    return bytes;
  }
  transfer.response.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
      std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  return bytes;
}

// Any other number than `bytes` ends the transfer.
size_t OnBody(char* data, size_t, size_t bytes, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  HttpResponse& response = transfer.response;
  const HttpRequest& request = *transfer.request;
  const uint64_t before = response.body_bytes;
  response.body_bytes += bytes;
  const int code = CodeOf(transfer.curl);
  if (code < 200 || code >= 300) {
    const uint64_t room = kKeptBytesOfErrors - std::min(kKeptBytesOfErrors, before);
    response.body.append(data, std::min<uint64_t>(bytes, room));
    return response.body_bytes > kReadBytesOfErrors ? 0 : bytes;
  }
  const uint64_t most = request.buffer == nullptr ? request.max_body_bytes : request.buffer_bytes;
  const uint64_t room = most - std::min(most, before);
  const uint64_t taken = std::min<uint64_t>(bytes, room);
  if (request.buffer == nullptr) {
    response.body.append(data, taken);
  } else if (taken > 0) {
    ::memcpy(request.buffer + before, data, taken);
  }
  response.is_cut_off = taken < bytes;
  return response.is_cut_off ? 0 : bytes;
}

// curl calls it about once a second at least, whatever it waits for.
int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const HttpStop*>(context)->is_stopped() ? 1 : 0;
}

absl::Status TransportError(CURLcode code, int http_code, const char* detail) {
  const std::string text =
      detail[0] == '\0' ? std::string(::curl_easy_strerror(code)) : std::string(detail);
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
      return absl::CancelledError("the program is leaving");
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(text);
    case CURLE_URL_MALFORMAT:
      return absl::InvalidArgumentError(text);
    case CURLE_UNSUPPORTED_PROTOCOL:
      // Before any answer: what came is no HTTP, such as bytes that an earlier answer on a kept
      // connection had too many. curl has closed it. After one: a redirect that is not followed.
      return http_code == 0 ? absl::UnavailableError(text) : absl::InvalidArgumentError(text);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return absl::FailedPreconditionError(
          absl::StrCat(text,
                       " (install the server's certificate authority on this machine, or "
                       "name its file in AWS_CA_BUNDLE)"));
    case CURLE_TOO_MANY_REDIRECTS:
      return absl::FailedPreconditionError(text);
    case CURLE_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

// OpenSSL writes to a connection that the other side has closed as any program does, and is told so
// by SIGPIPE. While one of these lives, its thread is not.
class NoSigpipe {
 public:
  NoSigpipe() {
    ::sigemptyset(&sigpipe_);
    ::sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once = {};
    while (!was_pending_ && ::sigtimedwait(&sigpipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

bool InitCurl() { return ::curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK; }

long Milliseconds(absl::Duration duration) {  // NOLINT(google-runtime-int)
  return static_cast<long>(                   // NOLINT(google-runtime-int)
      std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 1, int64_t{1} << 30));
}

}  // namespace

void HttpStop::Stop() {
  MutexLock lock(mutex_);
  is_stopped_ = true;
  stopped_.NotifyAll();
}

bool HttpStop::Sleep(absl::Duration duration) {
  const Deadline deadline(duration);
  MutexLock lock(mutex_);
  while (!is_stopped_ && !deadline.over()) stopped_.WaitFor(mutex_, deadline.left());
  return !is_stopped_;
}

class HttpClient::Handle {
 public:
  Handle() : curl_(::curl_easy_init(), &::curl_easy_cleanup) {
    MUSTER_CHECK(curl_ != nullptr, "curl makes a handle");
  }

  absl::StatusOr<HttpResponse> Perform(const HttpClientOptions& options, const HttpRequest& request,
                                       uint64_t& new_connections) {
    CURL* curl = curl_.get();
    ::curl_easy_reset(curl);  // keeps the connections
    Transfer transfer{curl, &request, {}};
    std::array<char, CURL_ERROR_SIZE> detail = {};
    ::curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail.data());
    SetLimits(curl, options, request);
    std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, &::curl_slist_free_all);
    const auto add_header = [&](const std::string& line) {
      curl_slist* longer = ::curl_slist_append(headers.get(), line.c_str());
      MUSTER_CHECK(longer != nullptr, "a list grows");
      headers.release();
      headers.reset(longer);
    };
    for (const auto& [name, value] : request.headers) {
      add_header(absl::StrCat(name, value.empty() ? ";" : ": ", value));
    }
    add_header("Expect:");  // nor wait for "100 Continue", nor give a type that is not signed
    if (HasBody(request)) add_header("Content-Type:");
    SetMethod(curl, request);
    ::curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
    ::curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
    ::curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &OnHeader);
    ::curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
    ::curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &OnBody);
    ::curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    if (request.stop != nullptr) {
      ::curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
      ::curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &OnProgress);
      ::curl_easy_setopt(curl, CURLOPT_XFERINFODATA, request.stop);
    }
    const NoSigpipe no_sigpipe;
    const CURLcode result = ::curl_easy_perform(curl);

    long opened = 0;  // NOLINT(google-runtime-int)
    ::curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &opened);
    new_connections = static_cast<uint64_t>(opened);
    HttpResponse& response = transfer.response;
    response.code = CodeOf(curl);
    const char* url = nullptr;
    ::curl_easy_getinfo(curl, CURLINFO_EFFECTIVE_URL, &url);
    if (url != nullptr) response.effective_url = url;
    // What we have cut off ourselves is an answer; so is an error whose page breaks off.
    const bool is_worth_keeping = response.code == 206 && request.worth_keeping_bytes > 0 &&
                                  response.body_bytes >= request.worth_keeping_bytes;
    const bool is_answer =
        result != CURLE_ABORTED_BY_CALLBACK && (response.is_cut_off || is_worth_keeping ||
                                                (response.code >= 300 && response.body_bytes > 0));
    if (result != CURLE_OK && !is_answer) {
      return TransportError(result, response.code, detail.data());
    }
    return std::move(response);
  }

 private:
  static void SetLimits(CURL* curl, const HttpClientOptions& options, const HttpRequest& request) {
    ::curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    ::curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    const bool is_https = absl::StartsWithIgnoreCase(request.url, "https:");
    ::curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "http,https");
    ::curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.follow_redirects ? 1L : 0L);
    ::curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMaxRedirects);
    ::curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(options.connect_timeout));
    ::curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, Milliseconds(request.deadline));
    // S3 answers to the POST that joins parts when it has joined them: that may take its time.
    if (request.method != "POST") {
      ::curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT,
                         static_cast<long>(options.low_speed_bytes_per_second));  // NOLINT
      ::curl_easy_setopt(
          curl, CURLOPT_LOW_SPEED_TIME,
          static_cast<long>(absl::ToInt64Seconds(options.low_speed_time)));  // NOLINT
    }
    ::curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    ::curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kReceiveBufferBytes);
    // One connection carries one range at a time: streams of HTTP/2 would share its window.
    ::curl_easy_setopt(curl, CURLOPT_HTTP_VERSION,
                       static_cast<long>(CURL_HTTP_VERSION_1_1));  // NOLINT
    // A key may hold "..": it names itself, and is signed so.
    ::curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    ::curl_easy_setopt(curl, CURLOPT_USERAGENT, "muster");
    if (!options.use_proxy) ::curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    if (!options.ca_bundle.empty()) {
      ::curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_bundle.c_str());
    }
  }

  static bool HasBody(const HttpRequest& request) {
    return request.method == "PUT" || request.method == "POST" || request.method == "PATCH";
  }

  static void SetMethod(CURL* curl, const HttpRequest& request) {
    if (request.method == "HEAD") {
      ::curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
      return;
    }
    if (HasBody(request)) {
      // Not copied; sent once more by itself where a kept connection turns out to be closed.
      ::curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                         static_cast<curl_off_t>(request.body.size()));
      ::curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    }
    ::curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }

  const std::unique_ptr<CURL, void (*)(CURL*)> curl_;
};

HttpClient::HttpClient(HttpClientOptions options) : options_(std::move(options)) {
  static const bool is_ready = InitCurl();
  MUSTER_CHECK(is_ready, "curl is ready");
}

HttpClient::~HttpClient() = default;

absl::StatusOr<HttpResponse> HttpClient::Perform(const HttpRequest& request) {
  std::unique_ptr<Handle> handle = Take();
  uint64_t new_connections = 0;
  absl::StatusOr<HttpResponse> response = handle->Perform(options_, request, new_connections);
  GiveBack(std::move(handle), new_connections);
  return response;
}

uint64_t HttpClient::connections() const {
  MutexLock lock(mutex_);
  return connections_;
}

std::unique_ptr<HttpClient::Handle> HttpClient::Take() {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Handle> handle = std::move(idle_.back());
      idle_.pop_back();
      return handle;
    }
  }
  return std::make_unique<Handle>();
}

void HttpClient::GiveBack(std::unique_ptr<Handle> handle, uint64_t new_connections) {
  MutexLock lock(mutex_);
  connections_ += new_connections;
  if (idle_.size() < kMaxIdleHandles) idle_.push_back(std::move(handle));
}

}  // namespace muster
