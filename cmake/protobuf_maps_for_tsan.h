// Read before everything else in a build for ThreadSanitizer (proto/CMakeLists.txt). protobuf gives
// its map fields two counters more there, but the library as Debian builds it knows none, and
// whatever reflects on maps, as JSON does, would read beside them: so the maps keep its layout.
#pragma once

// First, with the macro: the standard library must know that ThreadSanitizer watches it.
#include <memory>

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
