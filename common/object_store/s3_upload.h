// A file being written to S3: nobody sees it before Close has published it whole.
//
// Bytes are held until a part is full; a file of one part goes up in one request, a larger one as a
// multipart upload. Publishing asks the server to refuse where the key is there already; servers
// that do not know that (some speak an older S3) overwrite. A request that was carried out although
// its answer was lost is recognised by an id in the object's metadata. Sync() does nothing: a crash
// before Close leaves no file, and after it a durable one. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "common/object_store/remote_caller.h"

namespace muster {

class S3Upload final : public WritableFile {
 public:
  // `caller` outlives the file; `on_published` is called once it is there.
  S3Upload(RemoteCaller& caller, RemotePath path, uint64_t part_bytes,
           std::function<void()> on_published);
  // Gives the upload up unless it was closed: the server drops its parts.
  ~S3Upload() override;

  // RESOURCE_EXHAUSTED past 10,000 parts; else the errors of RemoteCaller.
  absl::Status Append(absl::string_view bytes) override;
  absl::Status Sync() override;
  // ALREADY_EXISTS where the key is there.
  absl::Status Close() override;

 private:
  RemoteCall CallOf(const std::string& method) const;
  absl::Status Begin();
  absl::Status SendPart();
  absl::Status PutWhole();
  absl::Status Complete();
  // Sends the call that makes the object, if need be without the condition.
  absl::Status Publish(RemoteCall call);
  // Whether the object at the key is this upload's.
  bool IsOurs();
  void Abort();
  absl::Status Fail(absl::Status status);

  RemoteCaller& caller_;
  const RemotePath path_;
  const uint64_t part_bytes_;
  const std::function<void()> on_published_;
  const std::string id_;  // random
  std::string held_;
  std::string upload_id_;  // empty: none was begun
  std::vector<std::string> etags_;
  absl::Status failed_;  // the first error; also once it is closed
};

}  // namespace muster
