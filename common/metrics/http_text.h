// What of HTTP/1.1 the daemons speak, as text: the head of a request, the answer to it. Pure.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct HttpRequest {
  std::string path;
  std::multimap<std::string, std::string> query;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpHead {
  std::string method;
  HttpRequest request;
};

// Whether the head is all there: its empty line has come.
bool IsWholeHead(absl::string_view text);

// The first line of a head; the header lines say nothing that is of interest here.
// INVALID_ARGUMENT: not HTTP/1.x.
absl::StatusOr<HttpHead> ParseHttpHead(absl::string_view text);

// The whole answer; `with_body` false: for HEAD. The connection ends with it.
std::string FormatHttpResponse(const HttpResponse& response, bool with_body);

}  // namespace muster
