#include "common/call/http2_stream.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/peer_limits.h"
#include "common/call/grpc_wire.h"
#include "common/call/wait.h"

namespace muster {
namespace {

// How much may be under way to us: enough for a fast answer over a long line.
constexpr int32_t kWindowBytes = 1 << 20;
constexpr size_t kMaxOutBytes = 256 << 10;

absl::string_view View(const uint8_t* bytes, size_t size) {
  return absl::string_view(reinterpret_cast<const char*>(bytes), size);
}

nghttp2_nv Pair(const Http2Stream::Header& header) {
  const auto bytes = [](const std::string& text) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
  };
  return {bytes(header.name), bytes(header.value), header.name.size(), header.value.size(),
          header.secret ? uint8_t{NGHTTP2_NV_FLAG_NO_INDEX} : uint8_t{NGHTTP2_NV_FLAG_NONE}};
}

}  // namespace

struct Http2Stream::Callbacks {
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* self_pointer) {
    auto& self = *static_cast<Http2Stream*>(self_pointer);
    if (frame->hd.stream_id != self.stream_) return 0;
    constexpr size_t kEntryBytes = 32;  // as HTTP/2 counts each header
    self.header_bytes_ += name_size + value_size + kEntryBytes;
    if (self.header_bytes_ > kMaxHeaderBytes) {
      self.Fail(absl::ResourceExhaustedError(
          absl::StrCat("the answer's headers are larger than ", kMaxHeaderBytes, " bytes")));
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    const absl::string_view key = View(name, name_size);
    const std::string text(View(value, value_size));
    if (key == ":status" && !absl::SimpleAtoi(text, &self.answer_.http_status)) return 0;
    if (key == "content-type") self.answer_.content_type = text;
    if (key == "grpc-status") self.answer_.grpc_status = text;
    if (key == "grpc-message") self.answer_.grpc_message = text;
    return 0;
  }

  static int OnData(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* data, size_t size,
                    void* self_pointer) {
    auto& self = *static_cast<Http2Stream*>(self_pointer);
    if (stream == self.stream_) absl::StrAppend(&self.body_, View(data, size));
    return 0;
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* self_pointer) {
    auto& self = *static_cast<Http2Stream*>(self_pointer);
    if (frame->hd.stream_id != self.stream_ || frame->hd.type == NGHTTP2_RST_STREAM) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS) {
      constexpr int kFirstFinalStatus = 200;  // those below announce another head
      self.header_bytes_ = 0;
      self.answer_.headed = self.answer_.http_status >= kFirstFinalStatus;
    }
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      self.answered_ = true;
    }
    return 0;
  }

  static int OnClose(nghttp2_session*, int32_t stream, uint32_t code, void* self_pointer) {
    auto& self = *static_cast<Http2Stream*>(self_pointer);
    if (stream != self.stream_ || self.answered_) return 0;
    // Also what GOAWAY makes of a stream that the peer has not looked at.
    if (code == NGHTTP2_REFUSED_STREAM) self.hung_up_ = true;
    self.Fail(StatusOfReset(code));
    return 0;
  }

  static ssize_t ReadRequest(nghttp2_session*, int32_t, uint8_t* to, size_t size, uint32_t* flags,
                             nghttp2_data_source*, void* self_pointer) {
    auto& self = *static_cast<Http2Stream*>(self_pointer);
    const size_t count = std::min(size, self.request_.size() - self.request_at_);
    std::copy_n(self.request_.data() + self.request_at_, count, to);
    self.request_at_ += count;
    const bool empty = self.request_at_ == self.request_.size();
    if (empty && self.request_ends_) *flags |= NGHTTP2_DATA_FLAG_EOF;
    self.request_waits_ = empty && !self.request_ends_ && count == 0;
    if (self.request_waits_) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(count);
  }
};

Http2Stream::Http2Stream(UniqueFd connection, const std::vector<Header>& headers,
                         const Silence& silence)
    : connection_(std::move(connection)),
      silence_(silence),
      // The peer's first word is due as the answer to a ping would be: a port that takes
      // connections and says nothing is no server.
      judged_at_(RealClock().SinceBoot() + std::min(kConnectTimeout, silence.gone_after)),
      pinged_(true) {
  nghttp2_session_callbacks* callbacks = nullptr;
  MUSTER_CHECK(::nghttp2_session_callbacks_new(&callbacks) == 0, "there is memory for HTTP/2");
  ::nghttp2_session_callbacks_set_on_header_callback(callbacks, &Callbacks::OnHeader);
  ::nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Callbacks::OnData);
  ::nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Callbacks::OnFrame);
  ::nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Callbacks::OnClose);
  const bool made = ::nghttp2_session_client_new(&session_, callbacks, this) == 0;
  ::nghttp2_session_callbacks_del(callbacks);
  MUSTER_CHECK(made, "there is memory for an HTTP/2 session");
  const std::array<nghttp2_settings_entry, 3> settings = {
      {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindowBytes},
       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kMaxHeaderBytes}}};
  ::nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  ::nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindowBytes);
  std::vector<nghttp2_nv> pairs;
  for (const Header& header : headers) pairs.push_back(Pair(header));
  nghttp2_data_provider body = {};
  body.read_callback = &Callbacks::ReadRequest;
  stream_ = ::nghttp2_submit_request(session_, nullptr, pairs.data(), pairs.size(), &body, nullptr);
  MUSTER_CHECK(stream_ > 0, "the first stream of a session can be opened");
}

Http2Stream::~Http2Stream() { ::nghttp2_session_del(session_); }

void Http2Stream::Append(absl::string_view bytes) {
  request_.erase(0, std::exchange(request_at_, 0));
  absl::StrAppend(&request_, bytes);
  if (std::exchange(request_waits_, false)) ::nghttp2_session_resume_data(session_, stream_);
}

void Http2Stream::EndRequest() {
  request_ends_ = true;
  if (std::exchange(request_waits_, false)) ::nghttp2_session_resume_data(session_, stream_);
}

absl::Status Http2Stream::Turn(const UniqueFd& wake, absl::Duration deadline) {
  const bool was_sent = sent();
  FillOut();
  SendOut();
  if (over() || (!was_sent && sent())) return absl::OkStatus();
  const short events = out_.empty() ? POLLIN : POLLIN | POLLOUT;
  const absl::Duration until = std::min(deadline, judged_at_);
  const absl::StatusOr<short> ready = AwaitReady(connection_, events, wake, until);
  if (absl::IsDeadlineExceeded(ready.status()) && until < deadline) {
    Silent();
    return absl::OkStatus();
  }
  if (ready.ok() && (*ready & ~POLLOUT) != 0) Take();
  return ready.status();
}

// Frames what there is to send, up to a bound.
void Http2Stream::FillOut() {
  while (out_.size() < kMaxOutBytes) {
    const uint8_t* frame = nullptr;
    const ssize_t size = ::nghttp2_session_mem_send(session_, &frame);
    if (size < 0) Fail(absl::UnavailableError(::nghttp2_strerror(static_cast<int>(size))));
    if (size <= 0) break;
    absl::StrAppend(&out_, View(frame, static_cast<size_t>(size)));
  }
  if (!::nghttp2_session_want_read(session_) && !::nghttp2_session_want_write(session_)) {
    Fail(absl::UnavailableError("the peer broke the rules of HTTP/2, or ended the connection"));
  }
}

void Http2Stream::SendOut() {
  while (out_at_ < out_.size()) {
    const ssize_t count =
        ::send(connection_.get(), out_.data() + out_at_, out_.size() - out_at_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    // What is wrong with the connection is told by reading, after what had arrived before.
    if (count < 0) return;
    out_at_ += static_cast<size_t>(count);
  }
  out_.clear();
  out_at_ = 0;
}

void Http2Stream::Take() {
  std::array<uint8_t, kTurnBytes> bytes;
  const ssize_t count = ::recv(connection_.get(), bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    hung_up_ = true;
    Fail(absl::UnavailableError(count == 0 ? "the connection was closed" : ::strerror(errno)));
    return;
  }
  judged_at_ = RealClock().SinceBoot() + silence_.ping_after;
  pinged_ = false;
  const ssize_t taken =
      ::nghttp2_session_mem_recv(session_, bytes.data(), static_cast<size_t>(count));
  if (taken < 0) Fail(absl::UnavailableError(::nghttp2_strerror(static_cast<int>(taken))));
}

void Http2Stream::Silent() {
  if (std::exchange(pinged_, true)) {
    Fail(absl::UnavailableError("the peer is silent"));
    return;
  }
  ::nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  judged_at_ = RealClock().SinceBoot() + silence_.gone_after;
}

// The first cause is the one to tell.
void Http2Stream::Fail(absl::Status status) {
  if (!answered_ && fault_.ok()) fault_ = std::move(status);
}

}  // namespace muster
