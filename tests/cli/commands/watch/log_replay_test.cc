#include "cli/commands/watch/log_replay.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::cli {
namespace {

constexpr bool kOut = false;
constexpr bool kErr = true;

// Ten bytes.
v1::StreamLogsResponse Chunk(uint32_t attempt, uint32_t rank, bool is_stderr, uint64_t offset) {
  v1::StreamLogsResponse chunk;
  chunk.set_attempt(attempt);
  chunk.set_rank(rank);
  chunk.set_is_stderr(is_stderr);
  chunk.set_offset(offset);
  chunk.set_text("123456789\n");
  return chunk;
}

TEST(LogReplay, LeavesNothingOutBeforeAReconnect) {
  LogReplay replay;
  EXPECT_FALSE(replay.any());
  EXPECT_FALSE(replay.LeftOut(Chunk(1, 0, kOut, 50)));
  EXPECT_FALSE(replay.LeftOut(Chunk(1, 0, kErr, 0)));
  EXPECT_FALSE(replay.LeftOut(Chunk(2, 1, kErr, 0)));
  EXPECT_TRUE(replay.any());
}

TEST(LogReplay, AStreamThatTheTailLeftOutIsNewsOnlyBehindTheLastThatCame) {
  LogReplay replay;
  EXPECT_FALSE(replay.LeftOut(Chunk(2, 0, kOut, 50)));
  replay.Begin();
  EXPECT_TRUE(replay.LeftOut(Chunk(1, 0, kOut, 0))) << "an attempt before";
  EXPECT_TRUE(replay.LeftOut(Chunk(2, 0, kErr, 0)));
  EXPECT_FALSE(replay.LeftOut(Chunk(2, 0, kOut, 40))) << "LogText knows how much is news";
  EXPECT_TRUE(replay.LeftOut(Chunk(2, 0, kErr, 10)));
  EXPECT_FALSE(replay.LeftOut(Chunk(2, 0, kOut, 50))) << "the last that came";
  EXPECT_FALSE(replay.LeftOut(Chunk(2, 0, kErr, 20)));
}

TEST(LogReplay, EachRankIsForItself) {
  LogReplay replay;
  EXPECT_FALSE(replay.LeftOut(Chunk(1, 0, kOut, 50)));
  replay.Begin();
  EXPECT_FALSE(replay.LeftOut(Chunk(1, 1, kErr, 0))) << "of this rank there was nothing";
  EXPECT_TRUE(replay.LeftOut(Chunk(1, 0, kErr, 0)));
}

TEST(LogReplay, ALaterAttemptIsNewsThoughTheLastThatCameIsGone) {
  LogReplay replay;
  EXPECT_FALSE(replay.LeftOut(Chunk(1, 0, kOut, 50)));
  replay.Begin();
  EXPECT_FALSE(replay.LeftOut(Chunk(2, 0, kErr, 0)));
  EXPECT_FALSE(replay.LeftOut(Chunk(2, 0, kOut, 0)));
}

TEST(LogReplay, ASecondReconnectWithinTheReplayForgetsNothing) {
  LogReplay replay;
  EXPECT_FALSE(replay.LeftOut(Chunk(1, 0, kOut, 50)));
  replay.Begin();
  EXPECT_FALSE(replay.LeftOut(Chunk(1, 0, kOut, 0)));
  replay.Begin();
  EXPECT_FALSE(replay.LeftOut(Chunk(1, 0, kOut, 0)));
  EXPECT_TRUE(replay.LeftOut(Chunk(1, 0, kErr, 0))) << "still before the last that came";
}

}  // namespace
}  // namespace muster::cli
