#include "worker/trainer/rank/link_client.h"

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
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
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
  client->thread_ = std::thread([raw = client.get()] { raw->Loop(); });
  return client;
}

LinkClient::LinkClient(UniqueFd socket, UniqueFd signals, UniqueFd wake)
    : socket_(std::move(socket)),
      signals_(std::move(signals)),
      wake_(std::move(wake)),
      buffer_(std::make_unique<Buffer>()) {}

LinkClient::~LinkClient() {
  Cancel();
  if (!thread_.joinable()) return;
  {
    const Deadline deadline(kLastWords);
    MutexLock lock(mutex_);
    while (!unwritten_.empty() && !gone_ && !deadline.over())
      changed_.WaitFor(mutex_, deadline.left());
    leaving_ = true;
  }
  WakeLoop();
  thread_.join();
}

absl::Status LinkClient::Send(const RankLine& line) {
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (gone_) return Gone();
    const auto* progress = std::get_if<ProgressLine>(&line);
    if (progress != nullptr)
      progress_ = *progress;
    else
      unwritten_ += Encode(line);
    WriteLocked();
    wake = !unwritten_.empty();
    if (gone_) return Gone();
  }
  if (wake) WakeLoop();
  return absl::OkStatus();
}

// Until the socket takes no more, or there is nothing more. Does not block.
void LinkClient::WriteLocked() {
  while (!gone_ && HasNextLocked()) {
    const ssize_t n =
        ::send(socket_.get(), unwritten_.data(), unwritten_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) {
      gone_ = true;
      unwritten_.clear();
      break;
    }
    unwritten_.erase(0, static_cast<size_t>(n));
  }
  changed_.NotifyAll();
}

bool LinkClient::HasNextLocked() {
  if (!unwritten_.empty()) return true;
  if (progress_.has_value()) {
    unwritten_ = Encode(*std::exchange(progress_, std::nullopt));
    return true;
  }
  if (again_.has_value() || next_kept_ == kept_.size()) return false;
  MetricsLine& line = kept_[next_kept_++];
  const uint64_t before = next_kept_ == 1 ? acknowledged_ : kept_[next_kept_ - 2].seq;
  line.lost = line.seq - 1 - std::min(before, line.seq - 1);
  unwritten_ = Encode(line);
  return true;
}

void LinkClient::WakeLoop() {
  const uint64_t one = 1;
  // A counter that is full wakes it just as well.
  (void)!::write(wake_.get(), &one, sizeof(one));
}

absl::StatusOr<StoreReplyLine> LinkClient::Request(StoreLine line) {
  const Deadline deadline(absl::Milliseconds(line.timeout_ms) + kReplyGrace);
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
    if (failed.ok() && deadline.over()) {
      failed = absl::DeadlineExceededError("the rendezvous store did not answer");
    }
    if (failed.ok()) changed_.WaitFor(mutex_, deadline.left());
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
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (gone_) return;  // a lost agent shows in stop()
    line.seq = ++last_metrics_;
    kept_.push_back(std::move(line));
    if (kept_.size() > kMostKept) {
      kept_.pop_front();
      if (next_kept_ > 0) --next_kept_;
    }
    WriteLocked();
    wake = !unwritten_.empty();
  }
  if (wake) WakeLoop();
}

absl::Status LinkClient::AwaitAcks(absl::Duration timeout) {
  const Deadline deadline(timeout);
  MutexLock lock(mutex_);
  while (acknowledged_ < last_metrics_) {
    if (gone_) return Gone();
    if (deadline.over())
      return absl::DeadlineExceededError("the agent did not take the last metrics");
    changed_.WaitFor(mutex_, deadline.left());
  }
  return absl::OkStatus();
}

absl::Status LinkClient::AwaitPublish(int64_t step) {
  MutexLock lock(mutex_);
  while (publishable_.erase(step) == 0) {
    MUSTER_RETURN_IF_ERROR(WhyNotLocked(step));
    changed_.Wait(mutex_);
  }
  return absl::OkStatus();
}

absl::Status LinkClient::AwaitCommitted(int64_t step) {
  MutexLock lock(mutex_);
  while (committed_.count(step) == 0) {
    MUSTER_RETURN_IF_ERROR(WhyNotLocked(step));
    changed_.Wait(mutex_);
  }
  const std::string error = std::move(committed_.extract(step).mapped());
  if (!error.empty())
    return absl::FailedPreconditionError(absl::StrCat("the controller refused it: ", error));
  return absl::OkStatus();
}

void LinkClient::Supersede(int64_t step) {
  MutexLock lock(mutex_);
  superseded_.insert(step);
  changed_.NotifyAll();
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

absl::Status LinkClient::WhyNotLocked(int64_t step) const {
  MUSTER_RETURN_IF_ERROR(WhyNotLocked(/*stop_counts=*/false));
  if (superseded_.count(step) == 0) return absl::OkStatus();
  return absl::AbortedError("nobody waits for it any more: a later save is urgent");
}

void LinkClient::Loop() {
  pollfd watched[3] = {
      {socket_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  while (true) {
    int timeout_ms = -1;
    {
      MutexLock lock(mutex_);
      if (leaving_) return;
      if (again_.has_value() && again_->over()) {
        again_.reset();
        next_kept_ = 0;
      }
      WriteLocked();
      watched[0].events = static_cast<short>(unwritten_.empty() ? POLLIN : POLLIN | POLLOUT);
      if (again_.has_value())
        timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(again_->left())) + 1;
    }
    if (::poll(watched, 3, timeout_ms) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    uint64_t count = 0;
    if (watched[2].revents != 0) (void)!::read(wake_.get(), &count, sizeof(count));
    if (watched[1].revents != 0) {
      signalfd_siginfo ignored;
      if (::read(signals_.get(), &ignored, sizeof(ignored)) > 0)
        Take(StopLine{.save = false, .reason = "SIGTERM"});
    }
    if ((watched[0].revents & ~POLLOUT) != 0 && !ReadSocket()) break;
  }
  // Without an agent nothing may be published and nobody hears: the rank leaves at its next step.
  MutexLock lock(mutex_);
  gone_ = true;
  if (!stop_.wanted) stop_ = {true, false, "the agent is gone"};
  changed_.NotifyAll();
}

bool LinkClient::ReadSocket() {
  char bytes[16384];
  const ssize_t n = ::recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
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

void LinkClient::TakeAckLocked(const AckLine& ack) {
  acknowledged_ = std::max(acknowledged_, ack.seq);
  while (!kept_.empty() && kept_.front().seq <= acknowledged_) {
    kept_.pop_front();
    if (next_kept_ > 0) --next_kept_;
  }
  if (ack.again && !again_.has_value()) again_.emplace(kAgainAfter);
}

void LinkClient::Take(AgentLine line) {
  MutexLock lock(mutex_);
  if (auto* reply = std::get_if<StoreReplyLine>(&line)) {
    if (waiting_.count(reply->id) > 0) replies_[reply->id] = std::move(*reply);
  } else if (const auto* ack = std::get_if<AckLine>(&line)) {
    TakeAckLocked(*ack);
  } else if (const auto* publish = std::get_if<PublishLine>(&line)) {
    publishable_.insert(publish->step);
  } else if (auto* committed = std::get_if<CommittedLine>(&line)) {
    committed_[committed->step] = std::move(committed->error);
  } else if (auto* stop = std::get_if<StopLine>(&line)) {
    // The newest request counts: a SIGTERM after a request to save says that there is no time left
    // for it.
    stop_ = {true, stop->save, stop->reason};
  }
  changed_.NotifyAll();
}

}  // namespace muster::worker
