#include "worker/link/line_buffer.h"

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;

TEST(LineBuffer, CutsLinesHoweverTheBytesArrive) {
  const std::string stream = "one\n\ntwo three\nfour";
  for (size_t chunk = 1; chunk <= stream.size(); ++chunk) {
    LineBuffer buffer;
    std::vector<std::string> lines;
    for (size_t at = 0; at < stream.size(); at += chunk) {
      ASSERT_OK(buffer.Append(absl::string_view(stream).substr(at, chunk)));
      while (auto line = buffer.Next()) lines.push_back(*line);
    }
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two three"})) << chunk;
  }
}

TEST(LineBuffer, RefusesALineBeyondItsBound) {
  LineBuffer buffer(8);
  ASSERT_OK(buffer.Append("12345678"));
  EXPECT_THAT(buffer.Append("9"), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(LineBuffer, ALineOfExactlyTheBoundPasses) {
  LineBuffer buffer(8);
  ASSERT_OK(buffer.Append("12345678\nx"));
  EXPECT_EQ(buffer.Next(), "12345678");
  EXPECT_EQ(buffer.Next(), std::nullopt);
}

}  // namespace
}  // namespace muster::worker
