#include "common/object_store/s3_xml.h"

#include <expat.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/object_store/http_headers.h"
#include "common/object_store/remote_path.h"

namespace muster {
namespace {

constexpr size_t kMaxXmlBytes = 16 << 20;  // a page of 1000 keys of 1 KiB, thrice encoded, has 4
constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxTextBytes = 16 << 10;  // of one element

// Calls `on_element` at the end of each element with its path ("/ListBucketResult/Contents/Key")
// and the text directly in it.
class XmlWalk {
 public:
  using OnElement = std::function<absl::Status(absl::string_view path, const std::string& text)>;

  explicit XmlWalk(OnElement on_element)
      : parser_(::XML_ParserCreate(nullptr), &::XML_ParserFree),
        on_element_(std::move(on_element)) {
    MUSTER_CHECK(parser_ != nullptr, "expat makes a parser");
    ::XML_SetUserData(parser_.get(), this);
    ::XML_SetElementHandler(parser_.get(), &XmlWalk::OnStart, &XmlWalk::OnEnd);
    ::XML_SetCharacterDataHandler(parser_.get(), &XmlWalk::OnText);
    ::XML_SetStartDoctypeDeclHandler(parser_.get(), &XmlWalk::OnDoctype);
  }

  absl::Status Run(absl::string_view xml) {
    if (xml.size() > kMaxXmlBytes) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxXmlBytes, " bytes of XML"));
    }
    const XML_Status parsed =
        ::XML_Parse(parser_.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE);
    if (!failed_.ok()) return failed_;
    if (parsed == XML_STATUS_OK) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("no XML: ", ::XML_ErrorString(::XML_GetErrorCode(parser_.get())), " in line ",
                     ::XML_GetCurrentLineNumber(parser_.get())));
  }

 private:
  struct Element {
    size_t path_bytes;  // of the path without it
    std::string text;
  };

  void Fail(absl::Status status) {
    if (failed_.ok()) failed_ = std::move(status);
    ::XML_StopParser(parser_.get(), XML_FALSE);
  }

  static void OnStart(void* context, const XML_Char* name, const XML_Char**) {
    XmlWalk& walk = *static_cast<XmlWalk*>(context);
    if (walk.open_.size() >= kMaxDepth) {
      return walk.Fail(absl::InvalidArgumentError("XML that is nested too deeply"));
    }
    walk.open_.push_back({walk.path_.size(), ""});
    // A name without its namespace's prefix.
    absl::string_view local(name);
    if (const size_t colon = local.rfind(':'); colon != absl::string_view::npos) {
      local.remove_prefix(colon + 1);
    }
    absl::StrAppend(&walk.path_, "/", local.substr(0, kMaxTextBytes));
  }

  static void OnEnd(void* context, const XML_Char*) {
    XmlWalk& walk = *static_cast<XmlWalk*>(context);
    if (!walk.failed_.ok() || walk.open_.empty()) return;
    const absl::Status status = walk.on_element_(walk.path_, walk.open_.back().text);
    walk.path_.resize(walk.open_.back().path_bytes);
    walk.open_.pop_back();
    if (!status.ok()) walk.Fail(status);
  }

  static void OnText(void* context, const XML_Char* text, int bytes) {
    XmlWalk& walk = *static_cast<XmlWalk*>(context);
    if (walk.open_.empty()) return;
    std::string& held = walk.open_.back().text;
    if (held.size() + static_cast<size_t>(bytes) > kMaxTextBytes) {
      return walk.Fail(absl::InvalidArgumentError("XML with too long a text in it"));
    }
    held.append(text, static_cast<size_t>(bytes));
  }

  static void OnDoctype(void* context, const XML_Char*, const XML_Char*, const XML_Char*, int) {
    static_cast<XmlWalk*>(context)->Fail(
        absl::InvalidArgumentError("XML with a document type, which S3 never sends"));
  }

  const std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser_;
  const OnElement on_element_;
  std::string path_;
  std::vector<Element> open_;
  absl::Status failed_;
};

// "+" is a space, as S3 encodes names.
absl::Status DecodeName(std::string& name) {
  absl::StatusOr<std::string> decoded = PercentDecode(absl::StrReplaceAll(name, {{"+", " "}}));
  if (!decoded.ok()) return decoded.status();
  name = *std::move(decoded);
  return absl::OkStatus();
}

absl::Status DecodeNames(S3ListPage& page) {
  for (S3ListPage::Object& object : page.objects) MUSTER_RETURN_IF_ERROR(DecodeName(object.key));
  for (std::string& prefix : page.prefixes) MUSTER_RETURN_IF_ERROR(DecodeName(prefix));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<S3ListPage> ParseS3List(absl::string_view xml) {
  S3ListPage page;
  S3ListPage::Object object;
  bool has_key = false;
  bool has_size = false;
  bool is_encoded = false;
  bool is_list = false;
  XmlWalk walk([&](absl::string_view path, const std::string& text) -> absl::Status {
    if (path == "/ListBucketResult") {
      is_list = true;
    } else if (path == "/ListBucketResult/Contents/Key") {
      object.key = text;
      has_key = !text.empty();
    } else if (path == "/ListBucketResult/Contents/Size") {
      const std::optional<uint64_t> size = ParseLength(text);
      if (!size.has_value()) return absl::InvalidArgumentError("an object's size is no number");
      object.size_bytes = *size;
      has_size = true;
    } else if (path == "/ListBucketResult/Contents") {
      if (!has_key || !has_size) {
        return absl::InvalidArgumentError("an object has no key or no size");
      }
      page.objects.push_back(std::move(object));
      object = {};
      has_key = has_size = false;
    } else if (path == "/ListBucketResult/CommonPrefixes/Prefix") {
      page.prefixes.push_back(text);
    } else if (path == "/ListBucketResult/IsTruncated") {
      page.is_truncated = text == "true";
    } else if (path == "/ListBucketResult/NextContinuationToken") {
      page.next_token = text;
    } else if (path == "/ListBucketResult/EncodingType") {
      is_encoded = absl::EqualsIgnoreCase(text, "url");
    }
    return absl::OkStatus();
  });
  MUSTER_RETURN_IF_ERROR(walk.Run(xml));
  if (!is_list) return absl::InvalidArgumentError("XML without a ListBucketResult");
  if (page.is_truncated && page.next_token.empty()) {
    return absl::InvalidArgumentError("a list that goes on, and does not say where");
  }
  if (is_encoded) MUSTER_RETURN_IF_ERROR(DecodeNames(page));
  return page;
}

S3Error ParseS3Error(absl::string_view xml) {
  S3Error error;
  XmlWalk walk([&](absl::string_view path, const std::string& text) {
    if (path == "/Error/Code") error.code = text;
    if (path == "/Error/Message") error.message = text;
    if (path == "/Error/Region") error.region = text;
    return absl::OkStatus();
  });
  // What was read before a page breaks off is said all the same.
  walk.Run(xml).IgnoreError();
  return error;
}

absl::StatusOr<std::string> ParseS3UploadId(absl::string_view xml) {
  std::string id;
  XmlWalk walk([&](absl::string_view path, const std::string& text) {
    if (path == "/InitiateMultipartUploadResult/UploadId") id = text;
    return absl::OkStatus();
  });
  MUSTER_RETURN_IF_ERROR(walk.Run(xml));
  if (id.empty()) return absl::InvalidArgumentError("XML without an UploadId");
  return id;
}

std::string XmlRootName(absl::string_view xml) {
  std::string root;
  XmlWalk walk([&](absl::string_view path, const std::string&) {
    root = std::string(path.substr(1, path.find('/', 1) - 1));
    return absl::OkStatus();
  });
  return walk.Run(xml).ok() ? root : std::string();
}

}  // namespace muster
