// Carries what one rank wrote to stdout and stderr from its files into the spool, by offset: each
// byte once, whole lines where possible. A record has the time of its file's last write
// (base/rank_files.h) when it was read: its lines were written by then, about a second before as a
// rule, longer where the agent was held up. The spool's marks say where to go on, also for a new
// agent. Of a stream that grows beyond a bound only the end is still taken, when the rank is over,
// and its file is emptied now and then, so that it cannot fill the disk.
//
// The files lie where their rank may write: a link, a FIFO or a folder that it put there is passed
// over, and followed nowhere. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/agent/base/rank_files.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/telemetry/spool.h"

namespace muster::worker {

inline constexpr char kStdoutFile[] = "stdout.log";
inline constexpr char kStderrFile[] = "stderr.log";

class LogTailer {
 public:
  // A record's text is at most this long; a longer line is cut.
  static constexpr size_t kMaxRecordBytes = 64u << 10;
  // What is taken of each stream as it comes.
  static constexpr uint64_t kMaxStreamBytes = 256u << 20;
  // What the file of a stream beyond that may grow to before it is emptied.
  static constexpr uint64_t kMaxCappedFileBytes = 16u << 20;

  // `spool` outlives the tailer. `folder` holds the two files; one that is missing is empty.
  LogTailer(Spool& spool, RankKey key, std::string folder,
            uint64_t max_stream_bytes = kMaxStreamBytes)
      : spool_(spool), key_(key), folder_(std::move(folder)), max_stream_bytes_(max_stream_bytes) {}

  // Takes up to a megabyte of what is new. With `final`, also a last line without its end: nobody
  // writes any more. True when there is more to take at once. Errors are the file system's or the
  // spool's; nothing is lost by them.
  absl::StatusOr<bool> Pump(bool final);

  // How much the rank has written to stdout and to stderr, when nobody writes any more. Nothing
  // when a stream is beyond the bound, or a file cannot be asked.
  std::optional<std::array<uint64_t, 2>> WrittenBytes() const;

  // Bytes of both streams in the spool so far.
  uint64_t taken_bytes() const { return spool_.LogMark(key_, false) + spool_.LogMark(key_, true); }

 private:
  absl::StatusOr<bool> PumpStream(bool is_stderr, bool final);
  // Of a stream that is beyond the bound.
  absl::Status PumpCapped(bool is_stderr, bool final);
  absl::StatusOr<std::string> ReadUntaken(const RankFile& file) const;
  absl::Status Append(bool is_stderr, const RankFile& file, absl::string_view text);
  absl::StatusOr<RankFile> Open(bool is_stderr, int flags) const;
  std::string Path(bool is_stderr) const;

  Spool& spool_;
  const RankKey key_;
  const std::string folder_;
  const uint64_t max_stream_bytes_;
  bool end_taken_[2] = {};  // of a capped stdout, stderr
};

}  // namespace muster::worker
