// The page at /: its files (controller/web/app), which are part of musterd, with the headers that
// keep a browser from running or loading anything else. What it shows it asks for at /api/v1/.
#pragma once

#include <map>
#include <string>

#include "common/metrics/http_server.h"

namespace muster::controller {

// By path: "/" and "/page/NAME".
std::map<std::string, HttpHandler> PageHandlers();

}  // namespace muster::controller
