// Whether an address stays within its machine.
#pragma once

#include "absl/strings/string_view.h"

namespace muster {

// 127.0.0.0/8, ::1 (in brackets or not) or "localhost". A name that only begins so,
// "127.example.org", is none.
bool IsLoopback(absl::string_view host);

// The same of HOST:PORT; without a port, of all of it.
bool IsLoopbackAddress(absl::string_view address);

}  // namespace muster
