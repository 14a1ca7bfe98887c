// Reads all of a remote file through a cache, as one of several processes, in pieces of 100 kB from
// its own place on; prints XXH3-64 of the whole.
#include <stdio.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <string>

#include "common/base/clock.h"
#include "common/object_store/cache/cached_file_system.h"
#include "common/object_store/remote_file_system.h"

int main(int argc, char** argv) {
  std::string url;
  muster::BlockCacheOptions cache_options;
  muster::CachedFileSystemOptions options;
  double from = 0;
  CLI::App app("reads a file through a cache");
  app.add_option("url", url)->required();
  app.add_option("folder", cache_options.folder)->required();
  app.add_option("--block-bytes", options.block_bytes);
  app.add_option("--max-bytes", cache_options.max_bytes);
  app.add_option("--from", from, "where to begin, as a part of the file");
  CLI11_PARSE(app, argc, argv);

  muster::RealClock clock;
  muster::RemoteFileSystem remote({});
  const auto cache = muster::BlockCache::Open(cache_options, clock);
  if (!cache.ok()) return ::fprintf(stderr, "%s\n", cache.status().ToString().c_str()), 1;
  muster::CachedFileSystem fs(remote, remote, **cache, options);
  const auto size = fs.FileSize(url);
  if (!size.ok()) return ::fprintf(stderr, "%s\n", size.status().ToString().c_str()), 1;
  std::string bytes(*size, '\0');
  const uint64_t begin = static_cast<uint64_t>(from * static_cast<double>(*size));
  for (const auto& [first, last] : {std::pair{begin, *size}, std::pair{uint64_t{0}, begin}}) {
    for (uint64_t at = first; at < last; at += 100'000) {
      const auto got =
          fs.ReadAt(url, at, bytes.data() + at, std::min<uint64_t>(100'000, last - at));
      if (!got.ok()) return ::fprintf(stderr, "%s\n", got.status().ToString().c_str()), 1;
    }
  }
  ::printf("%016llx\n", static_cast<unsigned long long>(::XXH3_64bits(bytes.data(), bytes.size())));
  return 0;
}
