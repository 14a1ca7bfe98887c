#include "worker/agent/command/command_socket.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::muster::testing::TempDir;
using ::testing::HasSubstr;

UniqueFd Connect(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
      << path;
  return fd;
}

void Say(const UniqueFd& fd, const std::string& text) {
  ASSERT_EQ(::send(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
}

std::string Hear(const UniqueFd& fd) {
  char buffer[4096];
  const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  return got > 0 ? std::string(buffer, static_cast<size_t>(got)) : "";
}

class CommandSocketTest : public ::testing::Test {
 protected:
  void Listen(const std::string& folder) {
    std::filesystem::create_directories(folder);
    auto listener = CommandListener::Listen(folder, "slot-0.sock");
    ASSERT_OK(listener.status());
    listener_ = *std::move(listener);
    Serve();
  }
  void Serve() {
    socket_ = std::make_unique<CommandSocket>(*loop_, *listener_);
    socket_->Serve([this](CommandSocket::ConnectionId from, RankLine line) {
      from_.push_back(from);
      lines_.push_back(std::move(line));
    });
  }
  // What has arrived by now is taken: the tasks end up behind it.
  void Turn() {
    socket_->Drain();
    loop_->After(absl::ZeroDuration(), [this] { loop_->Quit(); });
    loop_->Run();
  }

  TempDir dir_;
  RealClock clock_;
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
  std::unique_ptr<CommandListener> listener_;
  std::unique_ptr<CommandSocket> socket_;
  std::vector<CommandSocket::ConnectionId> from_;
  std::vector<RankLine> lines_;
};

TEST_F(CommandSocketTest, SeveralProcessesSpeakAndEachGetsItsOwnAnswers) {
  Listen(dir_.path());
  struct stat info = {};
  ASSERT_EQ(::stat(socket_->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const UniqueFd one = Connect(socket_->path());
  const UniqueFd two = Connect(socket_->path());
  Say(one, "{\"type\":\"metrics\",\"step\":3,\"values\":{\"loss\":1}}\n");
  Say(two, "{\"type\":\"progress\",\"phase\":\"train\"}\n");
  Turn();
  ASSERT_EQ(lines_.size(), 2u);
  ASSERT_NE(from_[0], from_[1]);
  const bool one_first = std::holds_alternative<MetricsLine>(lines_[0]);
  socket_->Send(from_[one_first ? 0 : 1], AckLine{.seq = 1});
  socket_->Broadcast(StopLine{.save = true, .reason = "drain"});
  EXPECT_THAT(Hear(one), ::testing::AllOf(HasSubstr("\"ack\""), HasSubstr("\"stop\"")));
  EXPECT_THAT(Hear(two),
              ::testing::AllOf(::testing::Not(HasSubstr("\"ack\"")), HasSubstr("\"stop\"")));
}

TEST_F(CommandSocketTest, ABadLineIsAnsweredAndTheNextOneIsTaken) {
  Listen(dir_.path());
  const UniqueFd one = Connect(socket_->path());
  Say(one, "hello?\n{\"type\":\"frobnicate\"}\n{\"type\":\"progress\",\"phase\":\"x\"}\n");
  Turn();
  EXPECT_EQ(lines_.size(), 1u);
  const std::string answers = Hear(one);
  EXPECT_THAT(answers, HasSubstr("\"error\""));
  EXPECT_THAT(answers, HasSubstr("unknown line type 'frobnicate'"));
}

TEST_F(CommandSocketTest, WhatAProcessSaidBeforeItEndedIsHeard) {
  Listen(dir_.path());
  for (int i = 0; i < 5; ++i) {
    const UniqueFd one = Connect(socket_->path());
    Say(one, "{\"type\":\"progress\",\"phase\":\"x\"}\n");
  }
  Turn();
  EXPECT_EQ(lines_.size(), 5u);
  // Their connections are gone: an answer to one of them is dropped.
  for (const auto from : from_) socket_->Send(from, AckLine{.seq = 1});
}

TEST_F(CommandSocketTest, WhoHasSaidAllStillHearsWhatHeIsOwed) {
  Listen(dir_.path());
  const UniqueFd one = Connect(socket_->path());
  const UniqueFd two = Connect(socket_->path());
  for (const UniqueFd* fd : {&one, &two}) Say(*fd, "{\"type\":\"progress\",\"phase\":\"x\"}\n");
  Turn();
  ASSERT_EQ(from_.size(), 2u);
  socket_->Owe(from_[0]);
  ASSERT_EQ(::shutdown(one.get(), SHUT_WR), 0);
  ASSERT_EQ(::shutdown(two.get(), SHUT_WR), 0);
  Turn();
  char byte = 0;
  // The one waits, the other one is let go.
  EXPECT_EQ(::recv(one.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(::recv(two.get(), &byte, 1, 0), 0);
  socket_->PayOwed(from_[0], CommittedLine{.step = 7, .error = ""});
  Turn();
  EXPECT_THAT(Hear(one), HasSubstr("\"committed\""));
  EXPECT_EQ(::recv(one.get(), &byte, 1, 0), 0);
}

TEST_F(CommandSocketTest, AFolderTooDeepForASocketGetsOneElsewhere) {
  std::string deep = dir_.path();
  while (deep.size() < 120) deep += "/abcdefghij";
  Listen(deep);
  const std::string path = socket_->path();
  EXPECT_THAT(path, ::testing::StartsWith("/tmp/muster-"));
  Connect(path);
  socket_.reset();
  listener_.reset();
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path()));
}

TEST_F(CommandSocketTest, TheNextRankHearsNothingOfTheOneBefore) {
  Listen(dir_.path());
  UniqueFd accepted = Connect(socket_->path());
  Turn();
  socket_.reset();
  // Nobody serves between two ranks; whoever connects then belongs to neither.
  UniqueFd late = Connect(listener_->path());
  Say(late, "{\"type\":\"progress\",\"phase\":\"late\"}\n");
  Serve();
  const UniqueFd next = Connect(socket_->path());
  Say(next, "{\"type\":\"progress\",\"phase\":\"next\"}\n");
  Turn();
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(std::get<ProgressLine>(lines_[0]).phase, "next");
  char byte = 0;
  EXPECT_EQ(::recv(accepted.get(), &byte, 1, 0), 0);
}

TEST_F(CommandSocketTest, AnAgentThatWasKilledLeftASocketThatIsReplaced) {
  const std::string path = dir_.path() + "/slot-0.sock";
  {
    const UniqueFd left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  Listen(dir_.path());
  Say(Connect(path), "{\"type\":\"progress\",\"phase\":\"x\"}\n");
  Turn();
  EXPECT_EQ(lines_.size(), 1u);
}

}  // namespace
}  // namespace muster::worker
