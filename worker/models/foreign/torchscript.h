// Networks out of a file that Python wrote with torch.jit: an import format, not our core.
#pragma once

#include <istream>
#include <memory>

#include "worker/models/base/model.h"

namespace muster::worker {

// The network as the file has it, with its weights; the context's seed is not used. Parameters that
// require no gradient become buffers, tied ones keep their first name. It runs without the
// optimisations that torch.jit makes after some calls: they would give a resumed run other
// rounding.
//
// Throws c10::Error when the stream holds no such file, and from Forward when the network gives
// anything but one tensor.
std::unique_ptr<Model> MakeTorchScript(std::istream& file, const ModelContext& context);

}  // namespace muster::worker
