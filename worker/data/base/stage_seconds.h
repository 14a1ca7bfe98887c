// What the threads that make samples were busy with. Plain data.
#pragma once

namespace muster::worker {

// Seconds, added over threads: four busy threads make four seconds a second.
struct StageSeconds {
  double read = 0;     // of the stored bytes, from a disk or from far away
  double decode = 0;   // and cropping and resizing, of compressed pictures
  double augment = 0;  // and scaling, and of what is not compressed all but reading

  double total() const { return read + decode + augment; }
  StageSeconds& operator+=(const StageSeconds& more) {
    read += more.read;
    decode += more.decode;
    augment += more.augment;
    return *this;
  }
};

}  // namespace muster::worker
