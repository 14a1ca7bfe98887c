// The networks that have a name: what `muster model ls` shows, each as the spec would ask for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer_spec/job_spec.h"

namespace muster::worker {

struct CatalogEntry {
  std::string name;
  std::string summary;
  trainer_spec::Model model;
  std::vector<int64_t> input_shape;  // of one sample, as published
  int64_t classes = 0;               // for tokens: the vocabulary
};

std::vector<CatalogEntry> ModelCatalog();

}  // namespace muster::worker
