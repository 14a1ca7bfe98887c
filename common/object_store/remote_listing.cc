#include "common/object_store/remote_listing.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/object_store/folder_page.h"
#include "common/object_store/remote_path.h"
#include "common/object_store/s3_xml.h"

namespace muster {
namespace {

constexpr size_t kMaxListedEntries = 5'000'000;
constexpr uint64_t kMaxListPageBytes = 16 << 20;
constexpr uint64_t kMaxFolderPageBytes = 256 << 20;

RemoteCall ListCall(const RemotePath& folder) {
  RemoteCall call;
  call.path.is_s3 = true;
  call.path.bucket = folder.bucket;
  std::string prefix = folder.key;
  if (!prefix.empty() && prefix.back() != '/') prefix += '/';
  call.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}};
  call.max_body_bytes = kMaxListPageBytes;
  return call;
}

absl::StatusOr<S3ListPage> FetchPage(RemoteCaller& caller, const RemoteCall& call) {
  MUSTER_ASSIGN_OR_RETURN(const RemoteAnswer answer, caller.Call(call));
  if (answer.response.is_cut_off) {
    return caller.Error(call, absl::StatusCode::kDataLoss, "a page of the list is too long");
  }
  absl::StatusOr<S3ListPage> page = ParseS3List(answer.response.body);
  if (!page.ok()) {
    return caller.Error(call, absl::StatusCode::kDataLoss,
                        absl::StrCat("the answer is no list of S3: ", page.status().message(),
                                     "; does the endpoint speak S3?"));
  }
  return page;
}

// Adds what is directly in the folder. A key that ends in the slash stands for a folder itself.
void AddEntries(const S3ListPage& page, absl::string_view prefix, std::vector<FileInfo>& files) {
  for (const S3ListPage::Object& object : page.objects) {
    absl::string_view name = object.key;
    if (!absl::ConsumePrefix(&name, prefix) || name.empty()) continue;
    if (name.find('/') != absl::string_view::npos) continue;
    files.push_back({std::string(name), false, object.size_bytes});
  }
  for (const std::string& folder : page.prefixes) {
    absl::string_view name = folder;
    if (!absl::ConsumePrefix(&name, prefix)) continue;
    absl::ConsumeSuffix(&name, "/");
    if (name.empty() || name.find('/') != absl::string_view::npos) continue;
    files.push_back({std::string(name), true, 0});
  }
}

}  // namespace

absl::StatusOr<std::vector<FileInfo>> ListS3Folder(RemoteCaller& caller, const RemotePath& folder) {
  RemoteCall call = ListCall(folder);
  const std::string prefix = call.query[2].second;
  call.query.emplace_back("delimiter", "/");
  const size_t first_parameters = call.query.size();
  std::vector<FileInfo> files;
  bool is_there = prefix.empty();
  std::string token;
  for (;;) {
    call.query.resize(first_parameters);
    if (!token.empty()) call.query.emplace_back("continuation-token", token);
    MUSTER_ASSIGN_OR_RETURN(S3ListPage page, FetchPage(caller, call));
    const bool is_empty = page.objects.empty() && page.prefixes.empty();
    is_there = is_there || !is_empty;
    AddEntries(page, prefix, files);
    if (files.size() > kMaxListedEntries) {
      return caller.Error(call, absl::StatusCode::kResourceExhausted,
                          absl::StrCat("the folder has more than ", kMaxListedEntries,
                                       " entries: pack the files into shards"));
    }
    if (!page.is_truncated) break;
    if (page.next_token == token || is_empty) {
      return caller.Error(call, absl::StatusCode::kDataLoss, "the pages of the list never end");
    }
    token = std::move(page.next_token);
  }
  if (!is_there) {
    return caller.Error(call, absl::StatusCode::kNotFound,
                        absl::StrCat("no key begins with \"", prefix, "\"; check the path"));
  }
  std::sort(files.begin(), files.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.name < b.name; });
  return files;
}

absl::StatusOr<bool> HasS3Folder(RemoteCaller& caller, const RemotePath& folder) {
  RemoteCall call = ListCall(folder);
  call.query.emplace_back("max-keys", "1");
  MUSTER_ASSIGN_OR_RETURN(const S3ListPage page, FetchPage(caller, call));
  return !page.objects.empty() || !page.prefixes.empty();
}

absl::StatusOr<std::vector<FileInfo>> ListHttpFolder(RemoteCaller& caller,
                                                     absl::string_view folder) {
  RemoteCall call;
  MUSTER_ASSIGN_OR_RETURN(call.path, ParseRemotePath(WithTrailingSlash(folder)));
  call.max_body_bytes = kMaxFolderPageBytes;
  call.check = [](const HttpResponse& response) {
    // A file whose name was given with a slash, or a page for people.
    const bool is_json = absl::StartsWith(response.header("content-type"), "application/json");
    return is_json && !response.is_cut_off
               ? absl::OkStatus()
               : absl::UnimplementedError(
                     "the server's page of this folder is no list in JSON: set `autoindex on; "
                     "autoindex_format json;` in nginx, use S3, or name the files themselves");
  };
  MUSTER_ASSIGN_OR_RETURN(const RemoteAnswer answer, caller.Call(call));
  absl::StatusOr<std::vector<FileInfo>> files = ParseFolderPage(answer.response.body);
  if (!files.ok()) {
    return caller.Error(call, absl::StatusCode::kUnimplemented,
                        absl::StrCat("the page is no folder's list as nginx writes it: ",
                                     files.status().message()));
  }
  return files;
}

}  // namespace muster
