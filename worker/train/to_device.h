// Brings a batch to the rank's device.
#pragma once

#include <c10/core/Device.h>

#include "worker/data/loader.h"

namespace muster::worker {

// On a CPU the batch itself. To a GPU the copy runs beside what the device still computes, which it
// does from pinned memory only; torch keeps that until the copy is done.
Batch ToDevice(Batch batch, c10::Device device);

}  // namespace muster::worker
