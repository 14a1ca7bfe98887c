// `muster-trainer model ls` and `model show`: looks at networks without training them. `muster
// model` runs it for people.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster::worker {

// How it is printed.
enum class ModelFormat { kTable, kJson };

// The catalog: name, parameters, shape of a sample, one line about it.
absl::StatusOr<std::string> ListModels(ModelFormat format);

// A network of the catalog, with AdamW. NOT_FOUND with the names that there are.
absl::StatusOr<std::string> ShowModel(const std::string& name, ModelFormat format);

// The network and the optimizer of a resolved spec (JSON). Reads data only where the spec does not
// say what shape it has. PERMISSION_DENIED for a plug-in or TorchScript unless `allow_plugins`;
// else the codes of what the network is made of.
absl::StatusOr<std::string> ShowModelOfSpec(const std::string& spec_json, bool allow_plugins,
                                            FileSystem& fs, ModelFormat format);

}  // namespace muster::worker
