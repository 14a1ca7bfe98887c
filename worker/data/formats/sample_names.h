// What a sample is called, and which files are pictures.
//
// Every format takes its keys from paths by the same rule, WebDataset's: up to the first dot of the
// base name (github.com/webdataset/webdataset). So a sample has the same key in a folder, a tar and
// a TFRecord that keeps file names. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::worker {

struct SampleName {
  absl::string_view key;        // "n01440764/img_7" of "./n01440764/img_7.seg.PNG"
  absl::string_view extension;  // "seg.PNG"; empty: there is no dot
};

// Both are parts of `path`. A hidden file (".DS_Store", "._img_7.jpg") has an empty key.
SampleName NameOf(absl::string_view path);

// Of the record `number` of a file whose records have no names: "train.rec:00000012". In byte order
// up to record 99,999,999.
std::string NumberedKey(absl::string_view file_name, uint64_t number);

// Extensions of pictures that can be decoded, in lower case: what counts where nothing else is
// asked for.
const std::vector<std::string>& PictureExtensions();

// Whether `extension`, in any case, is one of `extensions`, which are in lower case.
bool IsExtensionOf(absl::string_view extension, const std::vector<std::string>& extensions);

// Whether bytes begin as a JPEG, PNG, WebP, GIF or BMP does. 12 bytes are enough to say so.
inline constexpr size_t kPictureMagicBytes = 12;
bool BeginsAsPicture(absl::string_view bytes);

}  // namespace muster::worker
