#include "common/metrics/http_text.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// %41 and, in a query, + for a space; what is no escape stays as it is.
std::string Unescape(absl::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
                        HexDigit(text[i + 2]) >= 0;
    if (escape) {
      out += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Other";
  }
}

}  // namespace

bool IsWholeHead(absl::string_view text) {
  return absl::StrContains(text, "\r\n\r\n") || absl::StrContains(text, "\n\n");
}

absl::StatusOr<HttpHead> ParseHttpHead(absl::string_view text) {
  const absl::string_view line =
      absl::StripTrailingAsciiWhitespace(text.substr(0, text.find('\n')));
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.") || words[1].empty()) {
    return absl::InvalidArgumentError("not a request of HTTP/1.1");
  }
  HttpHead head;
  head.method = std::string(words[0]);
  const absl::string_view target = words[1].substr(0, words[1].find('#'));
  const size_t mark = target.find('?');
  head.request.path = Unescape(target.substr(0, mark), /*plus_is_space=*/false);
  if (mark == target.npos) return head;
  for (const absl::string_view part : absl::StrSplit(target.substr(mark + 1), '&')) {
    if (part.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    head.request.query.emplace(Unescape(entry.first, true), Unescape(entry.second, true));
  }
  return head;
}

std::string FormatHttpResponse(const HttpResponse& response, bool with_body) {
  return absl::StrCat("HTTP/1.1 ", response.status, " ", ReasonOf(response.status),
                      "\r\nContent-Type: ", response.content_type,
                      "\r\nContent-Length: ", response.body.size(), "\r\nConnection: close\r\n\r\n",
                      with_body ? response.body : "");
}

}  // namespace muster
