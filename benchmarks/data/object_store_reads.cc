// Reads 256 MiB from a server on loopback that takes its time for each request, side by side: curl
// in one transfer, the client range by range, and the cache, cold with hints and warm.
//
//   muster-bench-object-store [--latency-ms 20] [--mib 256] [--threads 16]
//
// Prints one line a way: MiB/s, requests, bytes sent. The server is in this process, so all share
// its cores; read the rows against curl's.
#include <stdio.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/object_store/cache/cached_file_system.h"
#include "common/object_store/remote_file_system.h"
#include "tests/common/object_store/scripted_server.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

constexpr uint64_t kSampleBytes = 100'000;

// Samples of the whole object, each by the next thread that is free.
void ReadSamples(FileSystem& fs, const std::string& url, uint64_t bytes, uint64_t sample_bytes,
                 int threads) {
  std::atomic<uint64_t> next = 0;
  std::vector<std::thread> readers;
  for (int t = 0; t < threads; ++t) {
    readers.emplace_back([&] {
      std::string buffer(sample_bytes, '\0');
      for (uint64_t at = next.fetch_add(sample_bytes); at < bytes;
           at = next.fetch_add(sample_bytes)) {
        const auto got = fs.ReadAt(url, at, buffer.data(), sample_bytes);
        MUSTER_CHECK(got.ok(), got.status().ToString());
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

int Main(int argc, char** argv) {
  int latency_ms = 20;
  int mib = 256;
  int threads = 16;
  CLI::App app("reads from a slow server, side by side");
  app.add_option("--latency-ms", latency_ms, "added to each answer");
  app.add_option("--mib", mib, "of the object");
  app.add_option("--threads", threads, "that read");
  CLI11_PARSE(app, argc, argv);

  ::setenv("no_proxy", "127.0.0.1", 1);
  std::string object(static_cast<size_t>(mib) << 20, '\0');
  for (size_t i = 0; i < object.size(); ++i) object[i] = static_cast<char>(i * 2654435761u >> 13);
  testing::ScriptedServer server(
      [&](const testing::ServerRequest& request, testing::ScriptedServer::Answer& answer) {
        absl::SleepFor(absl::Milliseconds(latency_ms));
        testing::ServeObject(object, "\"1\"", request, answer);
      });
  const std::string url = server.Url("/data.tar");
  RealClock clock;
  const auto measure = [&](const std::string& name, const std::function<void()>& read) {
    const size_t requests = server.requests().size();
    const uint64_t sent = server.body_bytes();
    const absl::Duration begin = clock.SinceBoot();
    read();
    const double seconds = absl::ToDoubleSeconds(clock.SinceBoot() - begin);
    ::printf("%-44s %8.0f MiB/s %6zu requests %5.2f x the bytes\n", name.c_str(), mib / seconds,
             server.requests().size() - requests,
             static_cast<double>(server.body_bytes() - sent) / static_cast<double>(object.size()));
    ::fflush(stdout);
  };

  measure("curl, one transfer", [&] {
    MUSTER_CHECK(::system(absl::StrCat("curl -s -o /dev/null ", url).c_str()) == 0, "curl reads");
  });
  const testing::TempDir folder;
  RemoteFileSystem remote({});
  const std::string many = absl::StrCat(threads, " threads");
  measure("client, 8 MiB ranges, 1 thread",
          [&] { ReadSamples(remote, url, object.size(), 8 << 20, 1); });
  measure("client, 8 MiB ranges, " + many,
          [&] { ReadSamples(remote, url, object.size(), 8 << 20, threads); });
  measure("client, samples of 100 kB, " + many,
          [&] { ReadSamples(remote, url, object.size(), kSampleBytes, threads); });
  BlockCacheOptions cache_options;
  cache_options.folder = folder / "cache";
  auto cache = BlockCache::Open(cache_options, clock);
  MUSTER_CHECK(cache.ok(), cache.status().ToString());
  CachedFileSystem cached(remote, remote, **cache);
  measure("cache, cold, hinted, samples, 1 thread", [&] {
    cached.WillRead(url, 0, object.size());
    ReadSamples(cached, url, object.size(), kSampleBytes, 1);
  });
  measure("cache, warm, samples, 1 thread",
          [&] { ReadSamples(cached, url, object.size(), kSampleBytes, 1); });
  measure("cache, warm, samples, " + many,
          [&] { ReadSamples(cached, url, object.size(), kSampleBytes, threads); });
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Main(argc, argv); }
