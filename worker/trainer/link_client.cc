#include "worker/trainer/link_client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "worker/link/line_buffer.h"

namespace muster::worker {
namespace {

// The store answers a timeout itself; this much later the rank stops believing in an answer.
constexpr absl::Duration kReplyGrace = absl::Seconds(10);

absl::Status Gone() { return absl::UnavailableError("the link to the agent is closed"); }

}  // namespace

struct LinkClient::Buffer {
  LineBuffer lines;
};

absl::StatusOr<std::unique_ptr<LinkClient>> LinkClient::Start(UniqueFd socket, uint32_t rank) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  UniqueFd signals(::signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK));
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC));
  if (!signals.valid() || !wake.valid()) {
    return absl::UnavailableError(absl::StrCat("signalfd or eventfd: ", strerror(errno)));
  }
  auto client = std::unique_ptr<LinkClient>(
      new LinkClient(std::move(socket), std::move(signals), std::move(wake)));
  HelloLine hello;
  hello.protocol_version = kProtocolVersion;
  hello.rank = rank;
  hello.version = Version();
  MUSTER_RETURN_IF_ERROR(client->Send(hello));
  client->reader_ = std::thread([raw = client.get()] { raw->ReadLoop(); });
  return client;
}

LinkClient::LinkClient(UniqueFd socket, UniqueFd signals, UniqueFd wake)
    : socket_(std::move(socket)),
      signals_(std::move(signals)),
      wake_(std::move(wake)),
      buffer_(std::make_unique<Buffer>()) {}

LinkClient::~LinkClient() {
  Cancel();
  if (!reader_.joinable()) return;
  const uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof(one)) != sizeof(one)) ::shutdown(socket_.get(), SHUT_RDWR);
  reader_.join();
}

absl::Status LinkClient::Send(const RankLine& line) {
  const std::string text = Encode(line);
  MutexLock lock(write_mutex_);
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Gone();
    sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<StoreReplyLine> LinkClient::Request(StoreLine line) {
  const absl::Time deadline = absl::Now() + absl::Milliseconds(line.timeout_ms) + kReplyGrace;
  {
    MutexLock lock(mutex_);
    line.id = next_request_++;
    waiting_.insert(line.id);
  }
  const absl::Status sent = Send(line);
  MutexLock lock(mutex_);
  absl::Status failed = sent;
  while (failed.ok() && replies_.count(line.id) == 0) {
    failed = WhyNotLocked(/*stop_counts=*/true);
    const absl::Duration left = deadline - absl::Now();
    if (failed.ok() && left <= absl::ZeroDuration()) {
      failed = absl::DeadlineExceededError("the rendezvous store did not answer");
    }
    if (failed.ok()) changed_.WaitFor(mutex_, left);
  }
  waiting_.erase(line.id);
  if (!failed.ok()) return failed;
  StoreReplyLine reply = std::move(replies_.extract(line.id).mapped());
  if (reply.timed_out)
    return absl::DeadlineExceededError(absl::StrCat("rendezvous store: ", reply.error));
  if (!reply.error.empty())
    return absl::UnavailableError(absl::StrCat("rendezvous store: ", reply.error));
  return reply;
}

void LinkClient::SendMetrics(MetricsLine line) {
  {
    MutexLock lock(mutex_);
    line.seq = ++last_metrics_;
  }
  (void)Send(line);  // a lost agent shows in stop()
}

absl::Status LinkClient::AwaitAcks(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(mutex_);
  while (acknowledged_ < last_metrics_) {
    if (gone_) return Gone();
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration())
      return absl::DeadlineExceededError("the agent did not take the last metrics");
    changed_.WaitFor(mutex_, left);
  }
  return absl::OkStatus();
}

absl::Status LinkClient::AwaitPublish(int64_t step) {
  MutexLock lock(mutex_);
  while (publishable_.erase(step) == 0) {
    MUSTER_RETURN_IF_ERROR(WhyNotLocked(/*stop_counts=*/false));
    changed_.Wait(mutex_);
  }
  return absl::OkStatus();
}

absl::Status LinkClient::AwaitCommitted(int64_t step) {
  MutexLock lock(mutex_);
  while (committed_.count(step) == 0) {
    MUSTER_RETURN_IF_ERROR(WhyNotLocked(/*stop_counts=*/false));
    changed_.Wait(mutex_);
  }
  const std::string error = std::move(committed_.extract(step).mapped());
  if (!error.empty())
    return absl::FailedPreconditionError(absl::StrCat("the controller refused it: ", error));
  return absl::OkStatus();
}

LinkClient::Stop LinkClient::stop() const {
  MutexLock lock(mutex_);
  return stop_;
}

void LinkClient::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  changed_.NotifyAll();
}

absl::Status LinkClient::WhyNotLocked(bool stop_counts) const {
  if (gone_) return Gone();
  if (cancelled_) return absl::CancelledError("this rank is leaving");
  if (stop_counts && stop_.wanted)
    return absl::CancelledError(absl::StrCat("asked to stop: ", stop_.reason));
  return absl::OkStatus();
}

void LinkClient::ReadLoop() {
  pollfd watched[3] = {
      {socket_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  while (true) {
    if (::poll(watched, 3, /*timeout=*/-1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (watched[2].revents != 0) return;
    if (watched[1].revents != 0) {
      signalfd_siginfo ignored;
      if (::read(signals_.get(), &ignored, sizeof(ignored)) > 0)
        Take(StopLine{.save = false, .reason = "SIGTERM"});
    }
    if (watched[0].revents != 0 && !ReadSocket()) break;
  }
  // Without an agent nothing may be published and nobody hears: the rank leaves at its next step.
  MutexLock lock(mutex_);
  gone_ = true;
  if (!stop_.wanted) stop_ = {true, false, "the agent is gone"};
  changed_.NotifyAll();
}

bool LinkClient::ReadSocket() {
  char bytes[16384];
  const ssize_t n = ::read(socket_.get(), bytes, sizeof(bytes));
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (n == 0) return false;
  if (const absl::Status status =
          buffer_->lines.Append(absl::string_view(bytes, static_cast<size_t>(n)));
      !status.ok()) {
    Log(LogLevel::kError, "link_broken", {{"error", status.ToString()}});
    return false;
  }
  while (const auto text = buffer_->lines.Next()) {
    auto line = DecodeAgentLine(*text);
    if (line.ok()) {
      Take(*std::move(line));
    } else if (line.status().code() != absl::StatusCode::kNotFound) {
      Log(LogLevel::kError, "link_bad_line", {{"error", line.status().ToString()}});
    }
  }
  return true;
}

void LinkClient::Take(AgentLine line) {
  MutexLock lock(mutex_);
  if (auto* reply = std::get_if<StoreReplyLine>(&line)) {
    if (waiting_.count(reply->id) > 0) replies_[reply->id] = std::move(*reply);
  } else if (const auto* ack = std::get_if<AckLine>(&line)) {
    acknowledged_ = std::max(acknowledged_, ack->seq);
  } else if (const auto* publish = std::get_if<PublishLine>(&line)) {
    publishable_.insert(publish->step);
  } else if (auto* committed = std::get_if<CommittedLine>(&line)) {
    committed_[committed->step] = std::move(committed->error);
  } else if (auto* stop = std::get_if<StopLine>(&line)) {
    // The newest wish counts: a SIGTERM after a request to save says that there is no time left for
    // it.
    stop_ = {true, stop->save, stop->reason};
  }
  changed_.NotifyAll();
}

}  // namespace muster::worker
