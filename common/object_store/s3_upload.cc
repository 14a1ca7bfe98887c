#include "common/object_store/s3_upload.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/object_store/http_headers.h"
#include "common/object_store/s3_xml.h"

namespace muster {
namespace {

constexpr size_t kMaxParts = 10'000;  // S3's bound
constexpr uint64_t kMaxAnswerBytes = 64 << 10;
constexpr char kIdHeader[] = "x-amz-meta-muster-upload";
constexpr char kCondition[] = "If-None-Match";

std::string RandomId() {
  uint64_t bits[2] = {};
  // Fewer than 256 bytes are never cut short once the pool is ready.
  (void)!::getrandom(bits, sizeof bits, 0);
  return absl::StrCat(absl::Hex(bits[0], absl::kZeroPad16), absl::Hex(bits[1], absl::kZeroPad16));
}

// S3 has begun its answer 200 before it knew: the body tells.
absl::Status CheckCompleted(const HttpResponse& response) {
  if (!response.is_success()) return absl::OkStatus();
  const S3Error error = ParseS3Error(response.body);
  if (error.code.empty()) return absl::OkStatus();
  if (error.code == "PreconditionFailed") return absl::AlreadyExistsError("it is there already");
  return absl::UnavailableError(
      absl::StrCat("the parts were not joined: ", error.code.substr(0, 100)));
}

}  // namespace

S3Upload::S3Upload(RemoteCaller& caller, RemotePath path, uint64_t part_bytes,
                   std::function<void()> on_published)
    : caller_(caller),
      path_(std::move(path)),
      part_bytes_(part_bytes),
      on_published_(std::move(on_published)),
      id_(RandomId()) {}

S3Upload::~S3Upload() { Abort(); }

RemoteCall S3Upload::CallOf(const std::string& method) const {
  RemoteCall call;
  call.method = method;
  call.path = path_;
  call.max_body_bytes = kMaxAnswerBytes;
  return call;
}

absl::Status S3Upload::Append(absl::string_view bytes) {
  MUSTER_RETURN_IF_ERROR(failed_);
  while (!bytes.empty()) {
    // A full part waits for one more byte: the last one is Close's.
    if (held_.size() == part_bytes_) {
      if (upload_id_.empty()) MUSTER_RETURN_IF_ERROR(Fail(Begin()));
      MUSTER_RETURN_IF_ERROR(Fail(SendPart()));
    }
    const uint64_t taken = std::min<uint64_t>(bytes.size(), part_bytes_ - held_.size());
    held_.append(bytes.data(), taken);
    bytes.remove_prefix(taken);
  }
  return absl::OkStatus();
}

absl::Status S3Upload::Sync() { return failed_; }

absl::Status S3Upload::Close() {
  MUSTER_RETURN_IF_ERROR(failed_);
  if (upload_id_.empty()) {
    MUSTER_RETURN_IF_ERROR(Fail(PutWhole()));
  } else {
    MUSTER_RETURN_IF_ERROR(Fail(SendPart()));
    MUSTER_RETURN_IF_ERROR(Fail(Complete()));
    upload_id_.clear();
  }
  failed_ = caller_.Error(CallOf("PUT"), absl::StatusCode::kFailedPrecondition, "it is closed");
  on_published_();
  return absl::OkStatus();
}

absl::Status S3Upload::Begin() {
  RemoteCall call = CallOf("POST");
  call.query = {{"uploads", ""}};
  call.headers = {{kIdHeader, id_}};
  MUSTER_ASSIGN_OR_RETURN(const RemoteAnswer answer, caller_.Call(call));
  const absl::StatusOr<std::string> id = ParseS3UploadId(answer.response.body);
  if (!id.ok()) {
    return caller_.Error(call, absl::StatusCode::kDataLoss,
                         absl::StrCat("the answer is none of S3: ", id.status().message()));
  }
  upload_id_ = *id;
  return absl::OkStatus();
}

absl::Status S3Upload::SendPart() {
  RemoteCall call = CallOf("PUT");
  if (etags_.size() == kMaxParts) {
    return caller_.Error(call, absl::StatusCode::kResourceExhausted,
                         absl::StrCat("the file has more than ", kMaxParts, " parts of ",
                                      part_bytes_, " bytes: write it in several files"));
  }
  call.query = {{"partNumber", absl::StrCat(etags_.size() + 1)}, {"uploadId", upload_id_}};
  call.body = held_;
  MUSTER_ASSIGN_OR_RETURN(const RemoteAnswer answer, caller_.Call(call));
  const absl::string_view etag = answer.response.header("etag");
  if (etag.empty() || !IsPlainHeaderValue(etag)) {
    return caller_.Error(call, absl::StatusCode::kDataLoss, "the answer names no ETag of the part");
  }
  etags_.emplace_back(etag);
  held_.clear();
  return absl::OkStatus();
}

absl::Status S3Upload::PutWhole() {
  RemoteCall call = CallOf("PUT");
  call.body = held_;
  call.headers = {{kIdHeader, id_}, {kCondition, "*"}};
  return Publish(std::move(call));
}

absl::Status S3Upload::Complete() {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags_.size(); ++i) {
    absl::StrAppend(&body, "<Part><PartNumber>", i + 1, "</PartNumber><ETag>",
                    absl::StrReplaceAll(etags_[i], {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}),
                    "</ETag></Part>");
  }
  body += "</CompleteMultipartUpload>";
  RemoteCall call = CallOf("POST");
  call.query = {{"uploadId", upload_id_}};
  call.headers = {{kCondition, "*"}};
  call.body = body;
  call.check = CheckCompleted;
  return Publish(std::move(call));
}

absl::Status S3Upload::Publish(RemoteCall call) {
  call.expected = {404, 409, 412, 501};
  absl::StatusOr<RemoteAnswer> answer = caller_.Call(call);
  if (answer.ok() && answer->response.code == 501) {  // it does not know the condition
    call.headers.erase(
        std::remove_if(call.headers.begin(), call.headers.end(),
                       [](const auto& header) { return header.first == kCondition; }),
        call.headers.end());
    call.expected = {404, 409};
    answer = caller_.Call(call);
  }
  if (answer.ok() && answer->response.is_success()) return absl::OkStatus();
  // An earlier attempt may have been carried out: then its own object stands in the way.
  if (IsOurs()) return absl::OkStatus();
  if (!answer.ok()) return answer.status();
  if (answer->response.code == 404) {
    return caller_.Error(call, absl::StatusCode::kNotFound,
                         "HTTP 404; the bucket or the upload is not there (was it aborted?)");
  }
  if (answer->response.code == 501) {
    return caller_.Error(call, absl::StatusCode::kUnimplemented, "HTTP 501; it cannot be written");
  }
  return caller_.Error(call, absl::StatusCode::kAlreadyExists,
                       "there is an object of this name already: choose another one, or remove it");
}

bool S3Upload::IsOurs() {
  RemoteCall call = CallOf("HEAD");
  call.expected = {404};
  const absl::StatusOr<RemoteAnswer> answer = caller_.Call(call);
  return answer.ok() && answer->response.header(kIdHeader) == id_;
}

void S3Upload::Abort() {
  if (upload_id_.empty()) return;
  RemoteCall call = CallOf("DELETE");
  call.query = {{"uploadId", upload_id_}};
  call.expected = {404};
  caller_.Call(call).status().IgnoreError();  // the bucket's lifecycle rule is left to do it
  upload_id_.clear();
}

absl::Status S3Upload::Fail(absl::Status status) {
  if (!status.ok()) failed_ = status;
  return status;
}

}  // namespace muster
