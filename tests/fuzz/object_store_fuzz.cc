// What servers and people give the object store, of any bytes: lists in XML and JSON, errors,
// values of headers, credentials files, paths, blocks of the cache. It is read or refused, and what
// is read keeps its promises.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"
#include "common/object_store/aws_settings.h"
#include "common/object_store/cache/block_file.h"
#include "common/object_store/folder_page.h"
#include "common/object_store/http_headers.h"
#include "common/object_store/remote_path.h"
#include "common/object_store/s3_xml.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using ::muster::testing::FuzzInput;

[[noreturn]] void Broken(const char* what) {
  ::fprintf(stderr, "BROKEN: %s\n", what);
  ::abort();
}

bool HasControl(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

void ReadXml(const std::string& bytes) {
  for (const std::string& xml :
       {bytes, absl::StrCat("<ListBucketResult><EncodingType>url</EncodingType>", bytes,
                            "</ListBucketResult>")}) {
    const auto page = muster::ParseS3List(xml);
    if (!page.ok()) continue;
    if (page->objects.size() + page->prefixes.size() > xml.size()) Broken("more keys than bytes");
    if (page->is_truncated && page->next_token.empty()) Broken("a list that goes on nowhere");
  }
  (void)muster::ParseS3Error(bytes);
  const auto id = muster::ParseS3UploadId(
      absl::StrCat("<InitiateMultipartUploadResult>", bytes, "</InitiateMultipartUploadResult>"));
  if (id.ok() && id->empty()) Broken("an upload without an id");
}

void ReadJson(const std::string& bytes) {
  for (const std::string& json :
       {bytes, absl::StrCat("[{\"name\":\"a\",\"type\":\"file\",", bytes, "}]")}) {
    const auto files = muster::ParseFolderPage(json);
    if (!files.ok()) continue;
    for (const muster::FileInfo& file : *files) {
      if (file.name.empty() || file.name.find('/') != std::string::npos || HasControl(file.name)) {
        Broken("a name that is none");
      }
    }
  }
}

void ReadHeaders(const std::string& bytes) {
  for (const std::string& value : {bytes, "bytes " + bytes}) {
    const auto range = muster::ParseContentRange(value);
    if (!range.has_value()) continue;
    if (range->first <= range->last && range->total.has_value() && range->last >= *range->total) {
      Broken("a range behind the end");
    }
    if (range->first > range->last && !range->total.has_value()) Broken("a range of nothing");
  }
  (void)muster::ParseLength(bytes);
  (void)muster::ParseRetryAfter(bytes);
  if (muster::IsStrongEtag(bytes) && HasControl(bytes)) Broken("an ETag with a line break");
}

void ReadCredentials(const std::string& bytes) {
  for (const std::string& text : {bytes, "[default]\n" + bytes}) {
    const auto profile = muster::ParseCredentialsFile(text, "default");
    // Its message may go to a log: nothing of the file is in it.
    if (!profile.ok() && profile.status().message().size() > 100) Broken("a long error");
  }
}

void ReadPath(const std::string& bytes) {
  for (const std::string& path : {bytes, "http://" + bytes, "s3://" + bytes, "http://h/" + bytes}) {
    const auto parsed = muster::ParseRemotePath(path);
    if (HasControl(muster::UrlForPeople(path))) Broken("a control character for people");
    if (!parsed.ok()) continue;
    if (HasControl(parsed->url) || HasControl(parsed->bucket)) Broken("a URL with a line break");
    if (parsed->url.find(' ') != std::string::npos) Broken("a URL with a space");
    const auto again = muster::ParseRemotePath(parsed->url);
    if (!parsed->is_s3 && parsed->url.size() < 8000 && (!again.ok() || again->url != parsed->url)) {
      Broken("a URL that is encoded twice");
    }
  }
  const auto decoded = muster::PercentDecode(muster::PercentEncode(bytes, false));
  if (!decoded.ok() || *decoded != bytes) Broken("encoding loses bytes");
}

void ReadAsBlock(FuzzInput& input) {
  const std::string key(64, 'k');
  const std::string block = input.Bytes(input.Byte());
  std::string file = muster::EncodeBlockHeader(key, block) + block;
  const bool is_damaged = input.Chance(200) && !file.empty();
  if (is_damaged) {
    const size_t at = static_cast<size_t>(input.Word() % file.size());
    if (input.Chance(128)) {
      file.resize(at);
    } else {
      file[at] = static_cast<char>(file[at] ^ (1 + input.Below(255)));
    }
  }
  const muster::UniqueFd fd(::memfd_create("block", MFD_CLOEXEC));
  if (::write(fd.get(), file.data(), file.size()) != static_cast<ssize_t>(file.size())) return;
  std::string read(block.size(), '\0');
  const absl::Status status =
      muster::ReadBlock(fd.get(), key, block.size(), 0, read.data(), read.size());
  if (!is_damaged && !status.ok()) Broken("a block that is whole is refused");
  if (status.ok() && read != block) Broken("a damaged block is taken for data");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const uint32_t kind = input.Below(6);
  if (kind == 5) {
    ReadAsBlock(input);
    return 0;
  }
  const std::string bytes(input.Rest());
  if (kind == 0) ReadXml(bytes);
  if (kind == 1) ReadJson(bytes);
  if (kind == 2) ReadHeaders(bytes);
  if (kind == 3) ReadCredentials(bytes);
  if (kind == 4) ReadPath(bytes);
  return 0;
}
