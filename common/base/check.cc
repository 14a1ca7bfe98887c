#include "common/base/check.h"

#include <cstdlib>

#include "common/base/log.h"

namespace muster {

void CheckFailed(const char* file, int line, const char* condition, absl::string_view sentence) {
  Log(LogLevel::kError, "check_failed",
      {{"at", std::string(file) + ":" + std::to_string(line)},
       {"condition", condition},
       {"message", sentence}});
  std::abort();
}

}  // namespace muster
