// A rank for tests: speaks the real link, and does what the spec's "script" says, one command a
// line. A spec that a real controller resolved has no such key: then the tags "do-..." are the
// script, in the order of their names.
//
//   progress PHASE STEP      metrics COUNT           await_acks             store OP KEY [VALUE]
//   checkpoint STEP          await_stop              print TEXT             write TEXT (no newline)
//   spawn (a child in a session of its own)          ignore_term            await_file PATH
//   hide (likewise, without environment and output)
//   garbage (an invalid line)                        long_line              env NAME
//   save STEP (as checkpoint, with a real folder)
//   result succeeded|stopped|CLASS                   exit CODE              hang
//
// What it sees (answers, acks, stops) it prints to stdout. Exits 3 when the script is broken or the
// link ends.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/version.h"
#include "common/ckpt/checkpoint_writer.h"
#include "common/fs/file_system.h"
#include "nlohmann/json.hpp"
#include "worker/link/launch.h"
#include "worker/link/line_buffer.h"
#include "worker/link/link_messages.h"

namespace muster::worker {
namespace {

constexpr int kPollMs = 5;

[[noreturn]] void Die(const std::string& why) {
  ::fprintf(stderr, "fake trainer: %s\n", why.c_str());
  ::exit(3);
}

class FakeRank {
 public:
  FakeRank(int fd, Launch launch) : fd_(fd), launch_(std::move(launch)) {}

  void Run(const std::string& command) {
    std::istringstream in(command);
    std::string verb, a, b, c;
    in >> verb >> a >> b >> c;
    if (verb == "progress") {
      Send(ProgressLine{.phase = a, .step = std::stoll(b), .total_steps = 100, .epoch = 0.5});
    } else if (verb == "metrics") {
      for (int i = 0; i < std::stoi(a); ++i) {
        ++seq_;
        Send(MetricsLine{.seq = seq_,
                         .step = static_cast<int64_t>(seq_),
                         .time_ms = 1,
                         .values = {{"loss", 1.0 / static_cast<double>(seq_)}}});
      }
    } else if (verb == "again") {  // all of them, as a rank does that was asked to
      for (uint64_t seq = 1; seq <= seq_; ++seq)
        Send(MetricsLine{.seq = seq, .step = static_cast<int64_t>(seq), .values = {{"loss", 9}}});
    } else if (verb == "skip") {  // as a rank whose numbers were refused on their way
      seq_ += std::stoull(a);
    } else if (verb == "beat") {
      Send(ProgressLine{.phase = "evaluate", .step = 7, .beats = std::stoull(a)});
    } else if (verb == "memory_need") {
      Send(MemoryLine{.need = command.substr(12)});
    } else if (verb == "hog") {
      hoard_.assign(std::stoull(a) << 20, 'x');
    } else if (verb == "await_again") {
      while (!again_) Next();
      Print(absl::StrCat("again after ", acked_));
    } else if (verb == "await_acks") {
      while (acked_ < seq_) Next();
      Print("acked");
    } else if (verb == "store") {
      Store(a, b, c);
    } else if (verb == "checkpoint") {
      Checkpoint(std::stoll(a));
    } else if (verb == "save") {
      Save(std::stoll(a));
    } else if (verb == "await_stop") {
      while (!stop_.has_value()) Next();
      Print(absl::StrCat("stop save=", stop_->save));
    } else if (verb == "print") {
      Print(command.substr(6));
    } else if (verb == "write") {
      ::fputs(command.substr(6).c_str(), stdout);
      ::fflush(stdout);
    } else if (verb == "env") {
      Print(absl::StrCat(a, "=", ::getenv(a.c_str()) == nullptr ? "" : ::getenv(a.c_str())));
    } else if (verb == "spawn") {
      Spawn();
    } else if (verb == "hide") {
      Hide();
    } else if (verb == "ignore_term") {
      ::signal(SIGTERM, SIG_IGN);
    } else if (verb == "await_file") {
      struct stat info;
      while (::stat(a.c_str(), &info) != 0) ::poll(nullptr, 0, kPollMs);
    } else if (verb == "garbage") {
      Raw("{\"type\":\"metrics\",\"seq\":\"one\"}\n");
    } else if (verb == "long_line") {
      Raw(std::string(kMaxLineBytes + 100, 'x'));
    } else if (verb == "result") {
      ResultLine result{.succeeded = a == "succeeded",
                        .stopped = a == "stopped",
                        .results = {{"test_accuracy", 0.75}}};
      if (!result.succeeded && !result.stopped) {
        result.failure_class = a;
        result.message = "as the script says";
      }
      Send(result);
    } else if (verb == "exit") {
      ::exit(std::stoi(a));
    } else if (verb == "hang") {
      while (true) ::pause();
    } else {
      Die("unknown command: " + command);
    }
  }

  void Send(const RankLine& line) { Raw(Encode(line)); }

 private:
  void Raw(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t put = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (put < 0) Die("the link is broken");
      sent += static_cast<size_t>(put);
    }
  }

  // Takes the next line of the agent.
  void Next() {
    while (true) {
      if (const auto text = lines_.Next()) {
        auto line = DecodeAgentLine(*text);
        if (!line.ok()) Die(line.status().ToString());
        if (const auto* ack = std::get_if<AckLine>(&*line)) {
          acked_ = ack->seq;
          again_ |= ack->again;
        }
        if (const auto* reply = std::get_if<StoreReplyLine>(&*line)) reply_ = *reply;
        if (const auto* publish = std::get_if<PublishLine>(&*line)) published_ = publish->step;
        if (const auto* committed = std::get_if<CommittedLine>(&*line)) committed_ = *committed;
        if (const auto* stop = std::get_if<StopLine>(&*line)) stop_ = *stop;
        return;
      }
      char buffer[4096];
      const ssize_t got = ::read(fd_, buffer, sizeof buffer);
      if (got <= 0) Die("the link ended");
      if (!lines_.Append({buffer, static_cast<size_t>(got)}).ok()) Die("a line is too long");
    }
  }

  void Store(const std::string& op, const std::string& key, const std::string& value) {
    StoreLine line{.id = ++store_id_, .keys = {key}, .value = value, .timeout_ms = 60'000};
    line.op = op == "set"   ? StoreLine::Op::kSet
              : op == "add" ? StoreLine::Op::kAdd
                            : StoreLine::Op::kGet;
    Send(line);
    reply_.reset();
    while (!reply_.has_value()) Next();
    Print(absl::StrCat("store ", key, " found=", reply_->found, " value=", reply_->value,
                       " error=", reply_->error));
  }

  void Checkpoint(int64_t step) {
    const std::string path =
        absl::StrCat(launch_.checkpoint_root, "/step-", step, ".a", launch_.attempt, ".g1");
    Send(CheckpointLine{.kind = CheckpointLine::Kind::kBegin, .step = step});
    Send(CheckpointLine{.kind = CheckpointLine::Kind::kReady, .step = step});
    while (published_ != step) Next();
    Print(absl::StrCat("published ", step));
    Send(CheckpointLine{.kind = CheckpointLine::Kind::kCommit,
                        .step = step,
                        .path = path,
                        .manifest_sha256 = "ab",
                        .bytes = 3,
                        .metrics = {{"validation_accuracy", 0.5}}});
    committed_.reset();
    while (!committed_.has_value()) Next();
    Print(absl::StrCat("committed ", step, " error=", committed_->error));
  }

  // As the real trainer does it: written, allowed by the agent, renamed, told, acknowledged.
  void Save(int64_t step) {
    Send(CheckpointLine{.kind = CheckpointLine::Kind::kBegin, .step = step});
    const CheckpointFolder folder{step, launch_.attempt, launch_.generation, "n0"};
    auto writer = CheckpointWriter::Create(PosixFileSystem(), launch_.checkpoint_root, folder);
    if (!writer.ok()) Die(writer.status().ToString());
    const absl::Status added = (*writer)->AddFile(
        kModelFile, [&](const ByteSink& sink) { return sink(absl::StrCat("weights ", step)); });
    Manifest manifest;
    manifest.job_id = launch_.job_id;
    manifest.job_name = launch_.job_name;
    const auto sha256 = (*writer)->Finish(manifest);
    if (!added.ok() || !sha256.ok()) Die("the checkpoint could not be written");
    Send(CheckpointLine{.kind = CheckpointLine::Kind::kReady, .step = step});
    while (published_ != step) Next();
    if (!(*writer)->Publish().ok()) Die("the checkpoint could not be published");
    Send(CheckpointLine{.kind = CheckpointLine::Kind::kCommit,
                        .step = step,
                        .path = (*writer)->published_path(),
                        .manifest_sha256 = *sha256,
                        .bytes = (*writer)->bytes()});
    committed_.reset();
    while (!committed_.has_value()) Next();
    Print(absl::StrCat("committed ", step, " error=", committed_->error));
  }

  void Spawn() {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      while (true) ::pause();
    }
    Print(absl::StrCat("child ", child));
  }

  static void Hide() {
    if (::fork() != 0) return;
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(null, fd);
    const char* const argv[] = {"sleep", "100000", nullptr};
    char* const none[] = {nullptr};
    ::execve("/bin/sleep", const_cast<char* const*>(argv), none);
    ::_exit(1);
  }

  void Print(const std::string& text) {
    ::puts(text.c_str());
    ::fflush(stdout);
  }

  const int fd_;
  const Launch launch_;
  LineBuffer lines_;
  uint64_t seq_ = 0;
  uint64_t acked_ = 0;
  bool again_ = false;
  std::string hoard_;
  uint64_t store_id_ = 0;
  int64_t published_ = -1;
  std::optional<StoreReplyLine> reply_;
  std::optional<CommittedLine> committed_;
  std::optional<StopLine> stop_;
};

int Main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--launch") Die("usage: fake_trainer --launch FILE");
  std::ifstream file(argv[2]);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  absl::StatusOr<Launch> launch = DecodeLaunch(text);
  if (!launch.ok()) Die(launch.status().ToString());
  const char* fd = ::getenv(kLinkFdVariable);
  if (fd == nullptr) Die("no link");
  // As the real one: children do not inherit the link.
  ::fcntl(std::stoi(fd), F_SETFD, FD_CLOEXEC);
  const auto spec = nlohmann::json::parse(launch->spec_json);
  const uint32_t rank = launch->rank;
  FakeRank fake(std::stoi(fd), *std::move(launch));
  fake.Send(HelloLine{.protocol_version = kProtocolVersion, .rank = rank, .version = "fake"});
  if (spec.contains("script")) {
    for (const auto& command : spec["script"]) fake.Run(command.get<std::string>());
    return 0;
  }
  const auto tags = spec.value("tags", nlohmann::json::object());
  for (const auto& tag : tags.items()) {
    if (absl::StartsWith(tag.key(), "do-")) fake.Run(tag.value().get<std::string>());
  }
  return 0;
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) { return muster::worker::Main(argc, argv); }
