#include "controller/web/page.h"

#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/web/page_files.h"

namespace muster::controller {
namespace {

// Nothing inline, nothing from elsewhere, in nobody's frame.
constexpr char kPolicy[] =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'";

absl::string_view TypeOf(absl::string_view path) {
  if (absl::EndsWith(path, ".js")) return "text/javascript; charset=utf-8";
  if (absl::EndsWith(path, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(path, ".txt")) return "text/plain; charset=utf-8";
  if (absl::EndsWith(path, ".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

HttpHandler HandlerOf(absl::string_view path, absl::string_view contents) {
  ServedResponse response{.content_type = std::string(TypeOf(path)),
                          .body = std::string(contents),
                          .headers = {{"Content-Security-Policy", kPolicy},
                                      {"X-Content-Type-Options", "nosniff"},
                                      {"X-Frame-Options", "DENY"},
                                      {"Referrer-Policy", "no-referrer"},
                                      {"Cache-Control", "no-cache"}}};
  const std::string tag = absl::StrCat("\"", absl::Hex(absl::HashOf(contents)), "\"");
  response.headers.emplace_back("ETag", tag);
  ServedResponse unchanged = response;
  unchanged.status = 304;
  unchanged.body.clear();
  return [response = std::move(response), unchanged = std::move(unchanged),
          tag](const ServedRequest& request) {
    const auto known = request.headers.find("if-none-match");
    return known != request.headers.end() && known->second == tag ? unchanged : response;
  };
}

}  // namespace

std::map<std::string, HttpHandler> PageHandlers() {
  std::map<std::string, HttpHandler> handlers;
  for (const auto& [path, contents] : PageFiles()) {
    handlers[path == "index.html" ? "/" : absl::StrCat("/page/", path)] = HandlerOf(path, contents);
  }
  return handlers;
}

}  // namespace muster::controller
