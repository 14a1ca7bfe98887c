// Chooses, for all kernels of this folder, the instructions that the processor has.
//
// A kernel is a struct with a static function Run, always inlined: it is compiled once for any
// processor and once for AVX2, each loop vectorised by the compiler for what there is.
#pragma once

namespace muster::worker {

#if defined(__x86_64__)
#define MUSTER_AVX2 [[gnu::target("avx2,fma,f16c")]]

// Of x86 since 2013 (Haswell, later Zen).
inline bool HasAvx2() {
#if !defined(__clang__)  // clang 16 cannot be asked for it; what has AVX2 has it, too
  if (!__builtin_cpu_supports("f16c")) return false;
#endif
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

template <typename Kernel, typename... Arguments>
MUSTER_AVX2 auto RunWithAvx2(Arguments... arguments) {
  return Kernel::Run(arguments...);
}
#endif

// Kernel::Run of the arguments, which are taken by value, by the widest instructions that there
// are.
template <typename Kernel, typename... Arguments>
auto RunKernel(Arguments... arguments) {
#if defined(__x86_64__)
  if (HasAvx2()) return RunWithAvx2<Kernel>(arguments...);
#endif
  return Kernel::Run(arguments...);
}

}  // namespace muster::worker
