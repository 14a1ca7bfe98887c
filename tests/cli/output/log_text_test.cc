#include "cli/output/log_text.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::cli {
namespace {

v1::StreamLogsResponse Chunk(uint64_t offset, const std::string& text, uint32_t rank = 0,
                             bool is_stderr = false) {
  v1::StreamLogsResponse chunk;
  chunk.set_attempt(1);
  chunk.set_rank(rank);
  chunk.set_is_stderr(is_stderr);
  chunk.set_offset(offset);
  chunk.set_text(text);
  return chunk;
}

TEST(LogText, PrintsWholeLinesAndTheRestAtTheEnd) {
  LogText text({});
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(0, "one\ntw"))), "one\n");
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(6, "o\nthree"))), "two\n");
  EXPECT_EQ(text.Rest(), "three\n");
  EXPECT_EQ(text.Rest(), "");
}

TEST(LogText, DropsWhatAReconnectBringsAgain) {
  LogText text({});
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(0, "one\n"))), "one\n");
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(0, "one\n"))), "");
  const v1::StreamLogsResponse fresh = text.Fresh(Chunk(0, "one\ntwo\n"));
  EXPECT_EQ(fresh.offset(), 4u);
  EXPECT_EQ(text.Lines(fresh), "two\n");
}

TEST(LogText, LostBytesAreToldAndEndTheLineThatTheyTore) {
  LogText text({.origin = true});
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(0, "loss 0."))), "");
  v1::StreamLogsResponse behind = Chunk(107, "91 acc\n");
  behind.set_lost_bytes(100);
  EXPECT_EQ(text.Lines(text.Fresh(behind)),
            "a1.r0 | loss 0.\n"
            "a1.r0 | [100 bytes of output are lost here]\n"
            "a1.r0 | 91 acc\n");
  // A reconnect brings the same once more, and something behind it.
  behind.set_text("91 acc\nmore\n");
  EXPECT_EQ(text.Lines(text.Fresh(behind)), "a1.r0 | more\n");
}

TEST(LogText, StreamsDoNotMix) {
  LogText text({.origin = true});
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(0, "out", 0))), "");
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(0, "err\n", 0, true))), "a1.r0 | err\n");
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(0, "other\n", 1))), "a1.r1 | other\n");
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(3, "put\n", 0))), "a1.r0 | output\n");
}

TEST(LogText, ATerminalIsNotSteeredByAProgram) {
  const std::string evil =
      "\x1b]0;title\x07"
      "\x1b[2J\x1b[31mred\x1b[0m\ttab\rback\xc2\x9b"
      "1m\n";
  LogText raw({});
  EXPECT_EQ(raw.Lines(raw.Fresh(Chunk(0, evil))), evil) << "a file gets what was written";
  LogText tame({.origin = true, .tame = true});
  EXPECT_EQ(tame.Lines(tame.Fresh(Chunk(0, evil))),
            "a1.r0 |  ]0;title  [2J\x1b[31mred\x1b[0m\ttab back 1m\x1b[0m\n");
}

TEST(LogText, ALineWithoutEndIsPrintedInPieces) {
  LogText text({});
  EXPECT_EQ(text.Lines(text.Fresh(Chunk(0, std::string((1 << 20) + 1, 'x')))).size(),
            (1u << 20) + 2);
  EXPECT_EQ(text.Rest(), "");
}

TEST(LogText, OnlyLinesThatAreWantedArePrinted) {
  LogText text({.origin = true,
                .wanted = [](absl::string_view line) { return line.find("loss") != line.npos; }});
  v1::StreamLogsResponse chunk;
  chunk.set_attempt(1);
  chunk.set_text("begin\nlo");
  EXPECT_EQ(text.Lines(chunk), "");
  chunk.set_text("ss 0.5\nend\n");
  EXPECT_EQ(text.Lines(chunk), "a1.r0 | loss 0.5\n") << "a line in pieces is one line";
  chunk.set_lost_bytes(7);
  chunk.set_text("last loss");
  EXPECT_EQ(text.Lines(chunk), "a1.r0 | [7 bytes of output are lost here]\n");
  EXPECT_EQ(text.Rest(), "a1.r0 | last loss\n");
}

TEST(LogText, EachLineHasTheTimeOfTheChunkThatEndsIt) {
  LogText text({.origin = true, .times = true});
  v1::StreamLogsResponse first = Chunk(0, "one\ntw");
  first.set_written_ms(1'000);
  EXPECT_EQ(text.Lines(first), "1970-01-01 00:00:01 a1.r0 | one\n");
  v1::StreamLogsResponse second = Chunk(6, "o\nthree");
  second.set_written_ms(61'000);
  EXPECT_EQ(text.Lines(second), "1970-01-01 00:01:01 a1.r0 | two\n");
  EXPECT_EQ(text.Lines(Chunk(13, "\n")), "- a1.r0 | three\n") << "an older agent sent no time";
  v1::StreamLogsResponse last = Chunk(14, "end");
  last.set_written_ms(62'000);
  EXPECT_EQ(text.Lines(last), "");
  EXPECT_EQ(text.Rest(), "1970-01-01 00:01:02 a1.r0 | end\n");
}

}  // namespace
}  // namespace muster::cli
