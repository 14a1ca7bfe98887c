// Files on HTTP servers ("http://", "https://") and on S3 and what speaks it ("s3://bucket/key"),
// behind the door of all files.
//
// What reads data (and later checkpoints) uses it, mostly through CachedFileSystem. Thread-safe:
// any number of threads may read at once, each over a connection of its own.
//
// A path is held to the content that its first read or size found, by ETag (or by Last-Modified and
// size): should it be replaced meanwhile, reads fail with FAILED_PRECONDITION, so that nobody sees
// a mixture. Writing or removing it through this object lets go. Of more than 262,144 paths some
// are let go of earlier.
//
// Errors are of file_system.h's codes, and: PERMISSION_DENIED for 401 and 403, NOT_FOUND for 404,
// OUT_OF_RANGE for 416 within the file, DATA_LOSS for an answer that contradicts itself or what was
// asked for, UNIMPLEMENTED where a server ignores ranges or cannot do what is wanted,
// DEADLINE_EXCEEDED once what may pass was tried for long enough (retry_rules.h), CANCELLED after
// Cancel.
//
// HTTP is only read; its folders are listed where nginx says `autoindex on; autoindex_format json;`
// (folder_page.h). On S3 a folder is what is before a slash of some key: MakeDirectories has
// nothing to do, and an empty folder is not there. Nothing is renamed on S3, since it could not be
// atomic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "common/fs/versioned_files.h"
#include "common/object_store/remote_caller.h"

namespace muster {

class RemoteFileSystem final : public FileSystem, public VersionedFiles {
 public:
  explicit RemoteFileSystem(AwsSettings settings, RemoteOptions options = {});
  // Files being written are closed or lost before.
  ~RemoteFileSystem() override;

  using FileSystem::CreateExclusive;
  // S3 only, published whole at Close (s3_upload.h); the mode is not kept.
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override;
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;
  // Asks the server each time.
  absl::StatusOr<bool> Exists(const std::string& path) override;
  // NOT_FOUND where nothing is below it; RESOURCE_EXHAUSTED past five million entries.
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& path) override;  // S3: OK, what is there is durable
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;

  absl::StatusOr<FileVersion> Version(const std::string& path) override;
  absl::StatusOr<uint64_t> ReadVersion(const std::string& path, const FileVersion& version,
                                       uint64_t offset, char* buffer,
                                       uint64_t buffer_bytes) override;

  void Cancel() override { caller_.Cancel(); }
  std::string Trouble() override { return caller_.trouble(); }

  // Takes the query off a URL of HTTP where it has one with a '=' in it, such as a signature, which
  // may be secret and is another one tomorrow, and adds it to each request for that URL, for what
  // is below it and for what lies beside it, unless that has been given itself. INVALID_ARGUMENT
  // for a URL that was given with another one before.
  absl::StatusOr<std::string> KeepQuery(const std::string& path) MUSTER_EXCLUDES(mutex_);

  // How many connections were opened so far.
  uint64_t connections() const { return caller_.http().connections(); }

 private:
  // What the server says of a file.
  struct Content {
    uint64_t size_bytes = 0;
    std::string etag;
    std::string last_modified;
  };
  FileVersion VersionOf(const std::string& path, const Content& content) const;
  static Content ContentOf(const HttpResponse& response, uint64_t size_bytes);

  // With the query that is kept for it.
  std::string WithQuery(const std::string& path) const MUSTER_EXCLUDES(mutex_);
  absl::StatusOr<RemotePath> Parse(const std::string& path) const;

  std::optional<Content> Held(const std::string& path) const MUSTER_EXCLUDES(mutex_);
  // Holds the path to this content; FAILED_PRECONDITION when it is held to another one.
  absl::Status Hold(const std::string& path, const Content& content) MUSTER_EXCLUDES(mutex_);
  void LetGo(const std::string& path) MUSTER_EXCLUDES(mutex_);

  // Of now; nothing: there is no such file.
  absl::StatusOr<std::optional<Content>> Look(const RemotePath& remote);
  absl::StatusOr<std::optional<Content>> LookByRange(const RemotePath& remote);
  absl::StatusOr<Content> HeldOrLook(const std::string& path);
  // One request; may bring less than the file has, but something. `held`, if any, is what the path
  // is held to. Fills `content`.
  absl::StatusOr<uint64_t> ReadOnce(const RemotePath& remote, const std::optional<Content>& held,
                                    uint64_t offset, char* buffer, uint64_t buffer_bytes,
                                    Content& content);

  const std::string endpoint_;  // of S3; empty: AWS
  RemoteCaller caller_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, Content> held_ MUSTER_GUARDED_BY(mutex_);
  // Of URLs, and of the folders that they lie in.
  std::unordered_map<std::string, std::string> queries_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster
