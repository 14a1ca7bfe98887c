// libjpeg's errors without its exit(): it jumps back to where it was called.
//
// The reader and the repacker of JPEGs use it. libjpeg calls back in C, so it is left by longjmp;
// what runs under RunJpeg must hold nothing with a destructor.
#pragma once

#include <setjmp.h>
#include <stdio.h>
// libjpeg's header needs stdio's.
#include <jpeglib.h>

#include "absl/status/status.h"

namespace muster::worker {

// Scans that a file may have: encoders write about ten, and each costs time for the whole picture.
inline constexpr int kMostJpegScans = 100;

struct JpegErrors {
  JpegErrors();
  JpegErrors(const JpegErrors&) = delete;
  JpegErrors& operator=(const JpegErrors&) = delete;

  // "is a damaged JPEG: " and libjpeg's words; RESOURCE_EXHAUSTED where it has run out of memory.
  absl::Status status() const;

  jpeg_error_mgr manager;  // the first member: libjpeg gives back a pointer to it
  jpeg_progress_mgr progress;
  jmp_buf jump;
  int code = 0;
  char message[JMSG_LENGTH_MAX] = {};
};

// Makes libjpeg stop a file of too many scans, and hold no more than max_bytes of coefficients.
void LimitJpeg(jpeg_decompress_struct& source, JpegErrors& errors, long max_bytes);

// False when libjpeg has left `body` by an error; errors.status() says which.
template <typename Body>
bool RunJpeg(JpegErrors& errors, const Body& body) {
  if (setjmp(errors.jump) != 0) return false;
  body();
  return true;
}

}  // namespace muster::worker
