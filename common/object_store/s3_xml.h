// The XML that S3 answers with, read by expat without building a tree. Hostile input gives an
// error; entities of its own are refused, so nothing expands. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// A page of ListObjectsV2. Names are decoded where the server says that it has encoded them.
struct S3ListPage {
  struct Object {
    std::string key;
    uint64_t size_bytes = 0;
  };
  std::vector<Object> objects;
  std::vector<std::string> prefixes;  // CommonPrefixes: folders, each ends in the delimiter
  bool is_truncated = false;
  std::string next_token;  // not empty if truncated
};

// INVALID_ARGUMENT for what is no such page.
absl::StatusOr<S3ListPage> ParseS3List(absl::string_view xml);

// <Error><Code>, <Message>; empty strings where there are none. `region`, of a bucket that is
// elsewhere.
struct S3Error {
  std::string code;
  std::string message;
  std::string region;
};
S3Error ParseS3Error(absl::string_view xml);

// The UploadId of InitiateMultipartUploadResult; INVALID_ARGUMENT without one.
absl::StatusOr<std::string> ParseS3UploadId(absl::string_view xml);

// The name of the outermost element; empty if it is no XML.
std::string XmlRootName(absl::string_view xml);

}  // namespace muster
