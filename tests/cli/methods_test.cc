#include "cli/methods.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_replace.h"

namespace muster::cli {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;

constexpr const char* kReadingWords[] = {"Get", "List", "Query", "Explain", "Find"};

template <typename Use>
void ForEachUnary(Use use) {
  use(rpc::kGetVersion, rpc::kSubmit, rpc::kListJobs, rpc::kGetJob, rpc::kCancelJob,
      rpc::kControlJob, rpc::kUpdateJob, rpc::kQueryMetrics, rpc::kListCheckpoints,
      rpc::kGetCheckpoint, rpc::kVerifyCheckpoint, rpc::kListWorkers, rpc::kCordonWorker,
      rpc::kForgetWorker, rpc::kListProjects, rpc::kSetProject, rpc::kGetGoodput, rpc::kExplainJob,
      rpc::kFindUpload);
}

// The protocol's own description of a method; the descriptor's names have dots.
const MethodDescriptor* Described(const std::string& path) {
  return DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrReplaceAll(path.substr(1), {{"/", "."}}));
}

template <typename Request, typename Response>
void ExpectAsDescribed(Method<Request, Response> method, bool sends_many, bool reads_many) {
  const MethodDescriptor* described = Described(method.path);
  ASSERT_NE(described, nullptr) << method.path;
  EXPECT_EQ(described->input_type(), Request::descriptor()) << method.path;
  EXPECT_EQ(described->output_type(), Response::descriptor()) << method.path;
  EXPECT_EQ(described->client_streaming(), sends_many) << method.path;
  EXPECT_EQ(described->server_streaming(), reads_many) << method.path;
}

// The protocol's methods are named by what they do.
template <typename Request, typename Response>
void ExpectRepeatedOnlyIfItReads(Method<Request, Response> method) {
  const std::string name = Described(method.path)->name();
  const bool reads = std::any_of(std::begin(kReadingWords), std::end(kReadingWords),
                                 [&](const char* word) { return name.rfind(word, 0) == 0; });
  EXPECT_EQ(method.only_reads, reads) << method.path;
}

TEST(Methods, UnaryOnesAreAsTheProtocolSays) {
  const auto expect = [](auto... methods) { (ExpectAsDescribed(methods, false, false), ...); };
  ForEachUnary(expect);
}

TEST(Methods, ThoseThatChangeSomethingAreNeverRepeated) {
  ForEachUnary([](auto... methods) { (ExpectRepeatedOnlyIfItReads(methods), ...); });
}

TEST(Methods, StreamsAreAsTheProtocolSays) {
  ExpectAsDescribed(rpc::kWatchJob, false, true);
  ExpectAsDescribed(rpc::kStreamEvents, false, true);
  ExpectAsDescribed(rpc::kStreamLogs, false, true);
  ExpectAsDescribed(rpc::kUpload, true, false);
}

}  // namespace
}  // namespace muster::cli
