#include "common/call/call.h"

#include <sys/eventfd.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/version.h"
#include "common/call/dial.h"
#include "common/call/grpc_wire.h"

namespace muster {
namespace {

constexpr char kContentType[] = "application/grpc";

std::vector<Http2Stream::Header> HeadersOf(const char* path, const CallOptions& options,
                                           absl::Duration left) {
  std::vector<Http2Stream::Header> headers = {{":method", "POST"},
                                              {":scheme", "http"},
                                              {":path", path},
                                              {":authority", options.address},
                                              {"content-type", kContentType},
                                              {"te", "trailers"},
                                              {"user-agent", absl::StrCat("muster/", Version())}};
  if (left != absl::InfiniteDuration()) headers.push_back({"grpc-timeout", TimeoutText(left)});
  if (!options.token.empty()) {
    headers.push_back({"authorization", absl::StrCat("Bearer ", options.token), /*secret=*/true});
  }
  return headers;
}

}  // namespace

Call::Call(const char* path, CallOptions options)
    : path_(path),
      options_(std::move(options)),
      deadline_(RealClock().SinceBoot() + options_.timeout),
      cancelled_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Call::Start(const google::protobuf::MessageLite& request) { ended_ = Frame(request); }

bool Call::Write(const google::protobuf::MessageLite& message) {
  if (!Frame(message) || !Open()) return false;
  while (!stream_->sent()) {
    if (!Turn()) return false;
  }
  return true;
}

void Call::EndWrites() {
  ended_ = true;
  if (stream_ != nullptr) stream_->EndRequest();
}

bool Call::Read(google::protobuf::MessageLite& message) {
  if (!Open()) return false;
  do {
    if (IsForeign()) return false;
    if (TakeMessage(message)) return true;
  } while (Turn());
  cut_off_ = !stream_->body().empty();
  return false;
}

CallEnd Call::Finish() {
  CallEnd end = AwaitEnd();
  if (stream_ != nullptr) end.connected = RealClock().SinceBoot() - connected_at_;
  return end;
}

CallEnd Call::AwaitEnd() {
  if (!Open()) return {failure_};
  do {
    stream_->body().clear();
    taken_ = 0;
    if (IsForeign()) break;
  } while (Turn());
  if (!failure_.ok()) return {failure_};
  const Http2Stream::Answer& answer = stream_->answer();
  if (!answer.grpc_status.empty()) {
    const absl::Status status = StatusOfTrailers(answer.grpc_status, answer.grpc_message);
    if (status.ok() && cut_off_) return {absl::InternalError("the answer ends within a message")};
    return {status, /*by_peer=*/true};
  }
  if (IsForeign()) return {StatusOfHttp(answer.http_status), /*by_peer=*/true};
  if (!stream_->fault().ok()) return {stream_->fault(), /*by_peer=*/false, stream_->unheard()};
  return {absl::InternalError("the answer ends without a status")};
}

void Call::Cancel() { ::eventfd_write(cancelled_.get(), 1); }

// Appends a message to what is to be sent.
bool Call::Frame(const google::protobuf::MessageLite& message) {
  const size_t at = framed_.size();
  framed_.append(kPrefixBytes, '\0');
  if (!message.AppendToString(&framed_)) {
    Fail(absl::InternalError("the request cannot be written"));
    return false;
  }
  PutPrefix(static_cast<uint32_t>(framed_.size() - at - kPrefixBytes), &framed_[at]);
  return true;
}

// Connects, the first time, and hands over what is to be sent. False: the call is over.
bool Call::Open() {
  if (!failure_.ok()) return false;
  if (stream_ == nullptr) {
    absl::StatusOr<UniqueFd> connection = Dial(options_.address, cancelled_, deadline_);
    if (!connection.ok()) {
      Fail(connection.status());
      return false;
    }
    connected_at_ = RealClock().SinceBoot();
    const absl::Duration left = deadline_ - connected_at_;
    stream_ = std::make_unique<Http2Stream>(*std::move(connection),
                                            HeadersOf(path_, options_, left), options_.silence);
  }
  if (!framed_.empty()) stream_->Append(std::exchange(framed_, {}));
  if (ended_) stream_->EndRequest();
  return true;
}

// False: nothing more will come of it.
bool Call::Turn() {
  if (!failure_.ok() || stream_->over()) return false;
  if (const absl::Status status = stream_->Turn(cancelled_, deadline_); !status.ok()) Fail(status);
  return failure_.ok();
}

// Whether the answer is not gRPC's.
bool Call::IsForeign() const {
  constexpr int kOk = 200;
  const Http2Stream::Answer& answer = stream_->answer();
  return answer.headed &&
         (answer.http_status != kOk || !absl::StartsWith(answer.content_type, kContentType));
}

// Takes a message out of what came, if it is whole.
bool Call::TakeMessage(google::protobuf::MessageLite& message) {
  const absl::string_view rest = absl::string_view(stream_->body()).substr(taken_);
  const MessagePrefix prefix = rest.size() < kPrefixBytes ? MessagePrefix() : ReadPrefix(rest);
  if (prefix.compressed) {
    Fail(absl::InternalError("the answer is compressed"));
  } else if (prefix.bytes > options_.max_receive_bytes) {
    Fail(absl::ResourceExhaustedError(absl::StrCat("an answer of ", prefix.bytes,
                                                   " bytes is larger than the limit of ",
                                                   options_.max_receive_bytes)));
  } else if (rest.size() < kPrefixBytes + prefix.bytes) {
    stream_->body().erase(0, std::exchange(taken_, 0));
  } else if (!message.ParseFromArray(rest.data() + kPrefixBytes, static_cast<int>(prefix.bytes))) {
    Fail(absl::InternalError("the answer is no message of the kind that was asked for"));
  } else {
    taken_ += kPrefixBytes + prefix.bytes;
    return true;
  }
  return false;
}

void Call::Fail(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
}

CallEnd FinishWith(Call& call, google::protobuf::MessageLite& response) {
  const bool answered = call.Read(response);
  CallEnd end = call.Finish();
  if (!end.ok() || answered) return end;
  return {absl::InternalError("the answer has no message")};
}

CallEnd CallUnary(Method<google::protobuf::MessageLite, google::protobuf::MessageLite> method,
                  const google::protobuf::MessageLite& request,
                  google::protobuf::MessageLite& response, CallOptions options) {
  const absl::Duration deadline = RealClock().SinceBoot() + options.timeout;
  const auto attempt = [&] {
    Call call(method.path, options);
    call.Start(request);
    return FinishWith(call, response);
  };
  CallEnd end = attempt();
  if (!end.unheard || !method.only_reads) return end;
  options.timeout = deadline - RealClock().SinceBoot();
  return attempt();
}

}  // namespace muster
