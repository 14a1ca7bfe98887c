#include "common/object_store/remote_file_system.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/object_store/http_headers.h"
#include "common/object_store/remote_listing.h"
#include "common/object_store/remote_path.h"
#include "common/object_store/s3_upload.h"

namespace muster {
namespace {

constexpr uint64_t kPartBytes = 8 << 20;
constexpr uint64_t kPieceBytes = 8 << 20;  // of one request
// Of a request that breaks off or is too slow for its deadline: so many bytes are kept, and the
// next one goes on behind them. What is slower than that is given up as a server that stalls.
constexpr uint64_t kProgressBytes = 32 << 10;
constexpr size_t kMaxHeldPaths = 1 << 18;
constexpr int kPreconditionFailed = 412;
constexpr int kRangeNotSatisfiable = 416;

absl::Status NotOnS3(const std::string& path, absl::string_view action, absl::string_view instead) {
  return absl::UnimplementedError(
      absl::StrCat("cannot ", action, " ", UrlForPeople(path), ": ", instead));
}

// What writes to a server of HTTP get to hear; OK for S3.
absl::StatusOr<RemotePath> ParseWritable(const std::string& path, absl::string_view action) {
  MUSTER_ASSIGN_OR_RETURN(RemotePath remote, ParseRemotePath(path));
  if (!remote.is_s3) {
    return absl::UnimplementedError(
        absl::StrCat("cannot ", action, " ", UrlForPeople(path),
                     ": servers of HTTP are only read; use s3://, or a folder of this machine"));
  }
  return remote;
}

absl::Status CheckIsFile(const RemotePath& remote) {
  const bool is_file = remote.is_s3
                           ? !remote.key.empty()
                           : !absl::EndsWith(remote.url.substr(0, remote.url.find('?')), "/");
  if (is_file) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(remote.is_s3 ? absl::StrCat("s3://", remote.bucket) : UrlForPeople(remote.url),
                   " is a folder, not a file"));
}

absl::Status Changed(absl::string_view how) {
  return absl::FailedPreconditionError(absl::StrCat("the file was replaced while it was in use (",
                                                    how,
                                                    "): start anew, and give new data a new name"));
}

// Judges an answer 206 for [offset, offset + bytes).
absl::Status CheckPartial(const HttpResponse& response, uint64_t offset, uint64_t bytes) {
  const std::optional<ContentRange> range = ParseContentRange(response.header("content-range"));
  if (!range.has_value() || range->first > range->last || !range->total.has_value()) {
    return absl::DataLossError("the answer 206 has no Content-Range that makes sense");
  }
  if (range->first != offset || range->last - offset >= bytes) {
    return absl::DataLossError(absl::StrCat("the answer has bytes ", range->first, " to ",
                                            range->last, ", not those from ", offset, " to ",
                                            offset + bytes - 1));
  }
  const uint64_t said = range->last - range->first + 1;
  if (response.is_cut_off || response.body_bytes > said) {
    return absl::DataLossError("the answer has more bytes than its Content-Range says");
  }
  if (response.body_bytes < std::min(said, kProgressBytes)) {
    return absl::UnavailableError(absl::StrCat("the answer has ", response.body_bytes,
                                               " bytes, its Content-Range says ", said));
  }
  return absl::OkStatus();
}

absl::Status CheckRead(const HttpResponse& response, uint64_t offset, uint64_t bytes) {
  switch (response.code) {
    case 206:
      return CheckPartial(response, offset, bytes);
    case kPreconditionFailed:
      return Changed("HTTP 412");
    case kRangeNotSatisfiable: {
      const auto range = ParseContentRange(response.header("content-range"));
      if (!range.has_value() || !range->total.has_value() || *range->total <= offset) {
        return range.has_value() && range->total.has_value()
                   ? absl::OkStatus()
                   : absl::OutOfRangeError("HTTP 416; the server has no such bytes of the file");
      }
      return absl::OutOfRangeError(absl::StrCat("HTTP 416, though the file has ", *range->total,
                                                " bytes and those from ", offset, " are read"));
    }
    case 200:
      // All of a file that is no longer than what was asked for.
      if (offset == 0 && !response.is_cut_off) return absl::OkStatus();
      return absl::UnimplementedError(
          "the server ignores ranges and sends the whole file: serve it by one that knows them "
          "(nginx, S3), or copy the data to this machine");
    default:
      return absl::DataLossError(
          absl::StrCat("HTTP ", response.code, " is no answer to a read of bytes"));
  }
}

}  // namespace

RemoteFileSystem::RemoteFileSystem(AwsSettings settings, RemoteOptions options)
    : endpoint_(settings.endpoint), caller_(std::move(settings), std::move(options)) {}

RemoteFileSystem::~RemoteFileSystem() = default;

// ---- queries of URLs ----

absl::StatusOr<std::string> RemoteFileSystem::KeepQuery(const std::string& path) {
  if (absl::StartsWith(path, "s3://")) return path;
  const absl::string_view query = QueryOf(path);
  const bool is_kept = absl::StrContains(query, '=');
  const std::string plain = is_kept ? path.substr(0, path.find('?')) : path;
  MutexLock lock(mutex_);
  const auto [known, is_new] = queries_.emplace(plain, is_kept ? query : "");
  if (!is_new && is_kept && known->second != query) {
    return absl::InvalidArgumentError(
        absl::StrCat(UrlForPeople(plain), " is given twice, with different queries"));
  }
  const std::string folder = ParentFolder(plain);
  const bool is_of_all_hosts = absl::EndsWith(folder, ":/");
  if (!is_of_all_hosts) queries_.emplace(folder, known->second);
  return plain;
}

std::string RemoteFileSystem::WithQuery(const std::string& path) const {
  MutexLock lock(mutex_);
  if (queries_.empty() || absl::StrContains(path, '?')) return path;
  for (std::string at = path; at != "."; at = ParentFolder(at)) {
    const auto found = queries_.find(at);
    if (found == queries_.end()) continue;
    return found->second.empty() ? path : absl::StrCat(path, "?", found->second);
  }
  return path;
}

absl::StatusOr<RemotePath> RemoteFileSystem::Parse(const std::string& path) const {
  return ParseRemotePath(WithQuery(path));
}

// ---- what a path is held to ----

FileVersion RemoteFileSystem::VersionOf(const std::string& path, const Content& content) const {
  FileVersion version{content.size_bytes, content.etag};
  if (version.tag.empty() && !content.last_modified.empty()) {
    version.tag = absl::StrCat(content.size_bytes, " ", content.last_modified);
  }
  // A path of S3 does not say whose S3 it is.
  if (!version.tag.empty() && !endpoint_.empty() && absl::StartsWith(path, "s3://")) {
    absl::StrAppend(&version.tag, " of ", endpoint_);
  }
  return version;
}

RemoteFileSystem::Content RemoteFileSystem::ContentOf(const HttpResponse& response,
                                                      uint64_t size_bytes) {
  const auto plain = [&](const std::string& name) {
    const absl::string_view value = response.header(name);
    return std::string(IsPlainHeaderValue(value) ? value : "");
  };
  return Content{size_bytes, plain("etag"), plain("last-modified")};
}

std::optional<RemoteFileSystem::Content> RemoteFileSystem::Held(const std::string& path) const {
  MutexLock lock(mutex_);
  const auto found = held_.find(path);
  if (found == held_.end()) return std::nullopt;
  return found->second;
}

absl::Status RemoteFileSystem::Hold(const std::string& path, const Content& content) {
  MutexLock lock(mutex_);
  if (held_.size() >= kMaxHeldPaths && !held_.contains(path)) held_.erase(held_.begin());
  const auto [found, is_new] = held_.emplace(path, content);
  if (is_new) return absl::OkStatus();
  const Content& held = found->second;
  const auto error = [&](const std::string& how) {
    const absl::Status changed = Changed(how);
    return absl::Status(changed.code(), absl::StrCat(UrlForPeople(path), ": ", changed.message()));
  };
  if (held.size_bytes != content.size_bytes) {
    return error(absl::StrCat(held.size_bytes, " bytes, now ", content.size_bytes));
  }
  if (held.etag != content.etag) {
    return error(
        absl::StrCat("ETag ", held.etag, ", now ", content.etag.empty() ? "none" : content.etag));
  }
  // Servers behind one name may disagree on the time, not on what the ETag says.
  if (held.etag.empty() && held.last_modified != content.last_modified) {
    return error(absl::StrCat("of ", held.last_modified, ", now of ", content.last_modified));
  }
  return absl::OkStatus();
}

void RemoteFileSystem::LetGo(const std::string& path) {
  MutexLock lock(mutex_);
  held_.erase(path);
}

// ---- reading ----

absl::StatusOr<std::optional<RemoteFileSystem::Content>> RemoteFileSystem::Look(
    const RemotePath& remote) {
  // A URL that is signed in its query is so for GET only.
  if (!remote.is_s3 && !QueryOf(remote.url).empty()) return LookByRange(remote);
  RemoteCall call;
  call.method = "HEAD";
  call.path = remote;
  call.expected = {404, 410, 405, 501};
  MUSTER_ASSIGN_OR_RETURN(const RemoteAnswer answer, caller_.Call(call));
  const HttpResponse& response = answer.response;
  if (response.code == 404 || response.code == 410) return std::optional<Content>();
  if (!remote.is_s3 && absl::EndsWith(response.effective_url, "/")) {
    return absl::FailedPreconditionError(
        absl::StrCat(UrlForPeople(remote.url), " is a folder, not a file"));
  }
  const std::optional<uint64_t> size = ParseLength(response.header("content-length"));
  if (!response.is_success() || !size.has_value()) return LookByRange(remote);
  return std::optional<Content>(ContentOf(response, *size));
}

absl::StatusOr<std::optional<RemoteFileSystem::Content>> RemoteFileSystem::LookByRange(
    const RemotePath& remote) {
  char first_byte = 0;
  Content content;
  const absl::StatusOr<uint64_t> got = ReadOnce(remote, std::nullopt, 0, &first_byte, 1, content);
  if (absl::IsNotFound(got.status())) return std::optional<Content>();
  if (!got.ok()) return got.status();
  return std::optional<Content>(std::move(content));
}

absl::StatusOr<RemoteFileSystem::Content> RemoteFileSystem::HeldOrLook(const std::string& path) {
  if (std::optional<Content> held = Held(path); held.has_value()) return *std::move(held);
  MUSTER_ASSIGN_OR_RETURN(const RemotePath remote, Parse(path));
  MUSTER_RETURN_IF_ERROR(CheckIsFile(remote));
  MUSTER_ASSIGN_OR_RETURN(std::optional<Content> content, Look(remote));
  if (!content.has_value()) {
    return absl::NotFoundError(absl::StrCat(UrlForPeople(path), ": HTTP 404; check the path"));
  }
  MUSTER_RETURN_IF_ERROR(Hold(path, *content));
  return *std::move(content);
}

absl::StatusOr<uint64_t> RemoteFileSystem::ReadOnce(const RemotePath& remote,
                                                    const std::optional<Content>& held,
                                                    uint64_t offset, char* buffer,
                                                    uint64_t buffer_bytes, Content& content) {
  RemoteCall call;
  call.path = remote;
  call.buffer = buffer;
  call.buffer_bytes = buffer_bytes;
  call.worth_keeping_bytes = kProgressBytes;
  call.headers = {{"Range", absl::StrCat("bytes=", offset, "-", offset + buffer_bytes - 1)}};
  if (held.has_value() && IsStrongEtag(held->etag)) {
    call.headers.emplace_back("If-Match", held->etag);
  } else if (held.has_value() && !held->last_modified.empty()) {
    call.headers.emplace_back("If-Unmodified-Since", held->last_modified);
  }
  call.expected = {kPreconditionFailed, kRangeNotSatisfiable};
  call.check = [&](const HttpResponse& response) {
    return CheckRead(response, offset, buffer_bytes);
  };
  MUSTER_ASSIGN_OR_RETURN(const RemoteAnswer answer, caller_.Call(call));
  const HttpResponse& response = answer.response;
  const uint64_t total = response.code == 200
                             ? response.body_bytes
                             : *ParseContentRange(response.header("content-range"))->total;
  content = ContentOf(response, total);
  const bool is_behind = response.code == kRangeNotSatisfiable;
  // The server has compared what it was asked to, and does not repeat it; behind the end, hardly
  // any one does.
  if (held.has_value() && content.etag.empty() && (is_behind || IsStrongEtag(held->etag))) {
    content.etag = held->etag;
  }
  if (held.has_value() && content.last_modified.empty() && is_behind) {
    content.last_modified = held->last_modified;
  }
  return is_behind ? 0 : response.body_bytes;
}

absl::StatusOr<uint64_t> RemoteFileSystem::ReadAt(const std::string& path, uint64_t offset,
                                                  char* buffer, uint64_t buffer_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const RemotePath remote, Parse(path));
  MUSTER_RETURN_IF_ERROR(CheckIsFile(remote));
  uint64_t done = 0;
  while (done < buffer_bytes) {
    const std::optional<Content> held = Held(path);
    const uint64_t end = held.has_value()
                             ? held->size_bytes
                             : static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (offset >= end || done >= end - offset) break;
    const uint64_t wanted = std::min({buffer_bytes - done, end - offset - done, kPieceBytes});
    Content content;
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            ReadOnce(remote, held, offset + done, buffer + done, wanted, content));
    // An empty answer behind the end names nothing to be held to.
    if (got > 0 || held.has_value()) MUSTER_RETURN_IF_ERROR(Hold(path, content));
    if (got == 0) break;
    done += got;
  }
  return done;
}

absl::StatusOr<FileVersion> RemoteFileSystem::Version(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const Content content, HeldOrLook(path));
  return VersionOf(path, content);
}

absl::StatusOr<uint64_t> RemoteFileSystem::ReadVersion(const std::string& path,
                                                       const FileVersion& version, uint64_t offset,
                                                       char* buffer, uint64_t buffer_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const Content held, HeldOrLook(path));
  if (VersionOf(path, held) != version) {
    return absl::Status(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat(UrlForPeople(path), ": ", Changed("another version").message()));
  }
  return ReadAt(path, offset, buffer, buffer_bytes);
}

absl::StatusOr<uint64_t> RemoteFileSystem::FileSize(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const Content content, HeldOrLook(path));
  return content.size_bytes;
}

absl::StatusOr<std::string> RemoteFileSystem::ReadFile(const std::string& path,
                                                       uint64_t max_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t size, FileSize(path));
  if (size > max_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        UrlForPeople(path), " has ", size, " bytes, more than the ", max_bytes, " allowed here"));
  }
  // Grows with what arrives: the size is only what the server says.
  std::string bytes;
  while (bytes.size() < size) {
    const uint64_t done = bytes.size();
    bytes.resize(done + std::min(kPieceBytes, size - done));
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            ReadAt(path, done, bytes.data() + done, bytes.size() - done));
    if (got < bytes.size() - done) {
      return absl::DataLossError(
          absl::StrCat(UrlForPeople(path), " ends after ", done + got, " of its ", size, " bytes"));
    }
  }
  return bytes;
}

absl::StatusOr<bool> RemoteFileSystem::Exists(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const RemotePath remote, Parse(path));
  const bool is_file = CheckIsFile(remote).ok();
  if (remote.is_s3) {
    if (is_file && remote.key.back() != '/') {
      MUSTER_ASSIGN_OR_RETURN(const std::optional<Content> content, Look(remote));
      if (content.has_value()) return true;
    }
    const absl::StatusOr<bool> folder = HasS3Folder(caller_, remote);
    if (absl::IsNotFound(folder.status())) return false;  // nor is the bucket
    return folder;
  }
  if (is_file) {
    const absl::StatusOr<std::optional<Content>> content = Look(remote);
    if (absl::IsFailedPrecondition(content.status())) return true;  // a folder
    if (!content.ok()) return content.status();
    return content->has_value();
  }
  RemoteCall call;
  call.method = "HEAD";
  call.path = remote;
  call.expected = {404, 410};
  MUSTER_ASSIGN_OR_RETURN(const RemoteAnswer answer, caller_.Call(call));
  return answer.response.is_success();
}

absl::StatusOr<std::vector<FileInfo>> RemoteFileSystem::List(const std::string& directory) {
  MUSTER_ASSIGN_OR_RETURN(const RemotePath remote, Parse(directory));
  return remote.is_s3 ? ListS3Folder(caller_, remote)
                      : ListHttpFolder(caller_, WithQuery(directory));
}

// ---- writing, to S3 ----

absl::StatusOr<std::unique_ptr<WritableFile>> RemoteFileSystem::CreateExclusive(
    const std::string& path, uint32_t) {
  MUSTER_ASSIGN_OR_RETURN(RemotePath remote, ParseWritable(path, "create"));
  MUSTER_RETURN_IF_ERROR(CheckIsFile(remote));
  // Said now, and not after gigabytes were sent; Close asks once more.
  MUSTER_ASSIGN_OR_RETURN(const std::optional<Content> content, Look(remote));
  if (content.has_value()) {
    return absl::AlreadyExistsError(absl::StrCat("cannot create ", path, ": it is there already"));
  }
  return std::make_unique<S3Upload>(caller_, std::move(remote), kPartBytes,
                                    [this, path] { LetGo(path); });
}

absl::Status RemoteFileSystem::MakeDirectories(const std::string& path) {
  return ParseWritable(path, "make folder").status();
}

absl::Status RemoteFileSystem::Rename(const std::string& from, const std::string&) {
  MUSTER_RETURN_IF_ERROR(ParseWritable(from, "rename").status());
  return NotOnS3(from, "rename",
                 "S3 has no rename, and a copy would not be atomic; write the object under its "
                 "last name (it is seen only once it is whole)");
}

absl::Status RemoteFileSystem::SyncDirectory(const std::string& path) {
  return ParseWritable(path, "sync").status();
}

absl::Status RemoteFileSystem::RemoveFile(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const RemotePath remote, ParseWritable(path, "remove"));
  MUSTER_RETURN_IF_ERROR(CheckIsFile(remote));
  // S3 says the same of a key that was never there.
  MUSTER_ASSIGN_OR_RETURN(const std::optional<Content> content, Look(remote));
  if (!content.has_value()) {
    return absl::NotFoundError(absl::StrCat("cannot remove ", path, ": it is not there"));
  }
  RemoteCall call;
  call.method = "DELETE";
  call.path = remote;
  MUSTER_RETURN_IF_ERROR(caller_.Call(call).status());
  LetGo(path);
  return absl::OkStatus();
}

absl::Status RemoteFileSystem::RemoveTree(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(ParseWritable(path, "remove").status());
  return NotOnS3(path, "remove all below",
                 "it takes one request a key and may stop half-way; use `aws s3 rm --recursive` or "
                 "a lifecycle rule of the bucket");
}

}  // namespace muster
