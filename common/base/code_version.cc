#include "common/base/built_commit.h"

#include "common/base/version.h"

namespace muster {

std::string CodeVersion() { return MUSTER_CODE_VERSION; }

}  // namespace muster
