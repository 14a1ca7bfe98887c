#include "worker/data/pictures/jpeg/jpeg_errors.h"

#include <jerror.h>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

[[noreturn]] void LeaveJpeg(j_common_ptr codec) {
  auto* errors = reinterpret_cast<JpegErrors*>(codec->err);
  errors->code = errors->manager.msg_code;
  (*errors->manager.format_message)(codec, errors->message);
  longjmp(errors->jump, 1);
}

// Bytes between two segments belong to nothing (photographs of many data sets have some), and the
// other two are about how colours are named.
bool IsHarmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
}

void NoteWarning(j_common_ptr codec, int level) {
  if (level < 0 && !IsHarmless(codec->err->msg_code)) LeaveJpeg(codec);
}

void StayQuiet(j_common_ptr) {}

void CountScans(j_common_ptr codec) {
  if (codec->is_decompressor == 0) return;
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMostJpegScans) {
    codec->err->msg_code = JERR_NOTIMPL;
    auto* errors = reinterpret_cast<JpegErrors*>(codec->err);
    errors->code = JERR_NOTIMPL;
    snprintf(errors->message, sizeof(errors->message), "it has more than %d scans", kMostJpegScans);
    longjmp(errors->jump, 1);
  }
}

}  // namespace

JpegErrors::JpegErrors() {
  jpeg_std_error(&manager);
  manager.error_exit = LeaveJpeg;
  manager.emit_message = NoteWarning;
  manager.output_message = StayQuiet;
  progress = {};
  progress.progress_monitor = CountScans;
}

absl::Status JpegErrors::status() const {
  switch (code) {
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE:
      return absl::ResourceExhaustedError(
          "is a JPEG that takes more memory than a decoder may have: raise the limit, or repack "
          "it");
    case JWRN_JPEG_EOF:
    case JERR_INPUT_EOF:
      return absl::InvalidArgumentError("is a JPEG that is cut off");
    default:
      return absl::InvalidArgumentError(absl::StrCat("is a damaged JPEG: ", message));
  }
}

void LimitJpeg(jpeg_decompress_struct& source, JpegErrors& errors, long max_bytes) {
  source.progress = &errors.progress;
  source.mem->max_memory_to_use = max_bytes;
}

}  // namespace muster::worker
