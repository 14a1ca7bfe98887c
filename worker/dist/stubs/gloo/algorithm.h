// Declarations of Gloo that c10d's ProcessGroupGloo.hpp names. Gloo itself is inside libtorch_cpu;
// the wheel carries no headers of it, and those of a distribution are of another version. Nothing
// here may be constructed by our code.
#pragma once

namespace gloo {

class Algorithm;

}  // namespace gloo
