// One StreamLogs call: first what is stored, by attempt; then, with `follow`, what arrives, until
// the job is over. Sends whole lines: what a chunk leaves of its last line waits for the rest.
// Turned by a StreamPump.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "controller/api/streams/out_stream.h"
#include "controller/engine/engine.h"
#include "controller/metrics/metrics_reader.h"
#include "controller/model/types/metrics_types.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

class LogStream final : public OutStream<v1::StreamLogsResponse>,
                        public std::enable_shared_from_this<LogStream> {
 public:
  // Logs travel beside the news that the job is over, and may come after it. So long after it they
  // are waited for: where ranks told how much they wrote (an agent that has just found a new
  // controller, say, is slower to send logs than news), and where they did not.
  static constexpr absl::Duration kMissingGrace = absl::Seconds(30);
  static constexpr absl::Duration kDrainGrace = absl::Seconds(2);

  // What of a job's logs is asked for. INVALID_ARGUMENT names the field that cannot be.
  static absl::Status ParseRequest(const v1::StreamLogsRequest& request, LogQuery& query);

  LogStream(CallGate& gate, const Engine& engine, MetricsReader& metrics, Clock& clock,
            const LogQuery& query);

  bool Turn() override;

 private:
  // One rank's stdout or stderr.
  struct Stream {
    uint64_t next_offset = 0;
    std::string line;  // begun, not ended
    uint64_t lost_bytes = 0;
    int64_t written_ms = 0;  // of the newest chunk
  };
  using StreamKey =
      std::tuple<uint32_t, uint32_t, uint32_t, bool>;  // attempt, generation, rank, stderr

  void OnDrained() override;
  void ReadOn();
  void OnPage(absl::StatusOr<LogPage> page);
  void Deliver(const StoredLogChunk& stored);
  void SendText(const StreamKey& key, Stream& stream, std::string text);
  void FlushLines();
  bool JobIsOver();
  // The job is over, and nothing of its newest attempt is waited for any more.
  bool IsDrained();
  // The query leaves out what was written first.
  bool SkipsBegin() const { return query_.tail_lines > 0 || query_.since_ms > 0; }
  bool IsMissing(const Attempt& attempt, const Rank& rank) const;

  const Engine& engine_;
  MetricsReader& metrics_;
  Clock& clock_;
  LogQuery query_;

  Mutex mutex_;
  bool reading_ MUSTER_GUARDED_BY(mutex_) = false;
  bool read_all_ MUSTER_GUARDED_BY(mutex_) = false;  // the last page was empty: wait for a turn

  // Touched by one read at a time (`reading_`).
  LogPosition position_;
  std::map<StreamKey, Stream> streams_;
  absl::Duration over_at_ =
      absl::InfiniteDuration();  // since boot: the job was first seen to be over
};

}  // namespace muster::controller
