// A checkpoint's files of any bytes: the manifest and the header of safetensors are read or
// refused.
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/ckpt/manifest.h"
#include "common/ckpt/safetensors.h"
#include "common/fs/file_system.h"

namespace {

constexpr uint64_t kMostTensorBytes = 1 << 20;

[[noreturn]] void Broken(const char* what) {
  ::fprintf(stderr, "BROKEN: %s\n", what);
  ::abort();
}

void ReadAsManifest(const std::string& bytes) {
  const auto manifest = muster::DecodeManifest(bytes);
  if (!manifest.ok()) return;
  const std::string once = muster::EncodeManifest(*manifest);
  const auto again = muster::DecodeManifest(once);
  if (!again.ok() || muster::EncodeManifest(*again) != once) Broken("a manifest changed");
}

void ReadAsTensors(const std::string& bytes) {
  static const int file = ::memfd_create("tensors", MFD_CLOEXEC);
  if (::ftruncate(file, 0) != 0 ||
      ::pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    Broken("no memory file");
  }
  const auto reader = muster::SafetensorsReader::Open(muster::PosixFileSystem(),
                                                      "/proc/self/fd/" + std::to_string(file));
  if (!reader.ok()) return;
  for (const auto& [name, tensor] : reader->tensors()) {
    if (tensor.offset > bytes.size() || tensor.size_bytes > bytes.size() - tensor.offset) {
      Broken("a tensor lies outside of its file");
    }
    if (tensor.size_bytes > kMostTensorBytes) continue;
    std::string buffer(tensor.size_bytes, '\0');
    if (!reader->Read(name, buffer.data()).ok()) Broken("a tensor of the header cannot be read");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadAsManifest(bytes);
  ReadAsTensors(bytes);
  return 0;
}
