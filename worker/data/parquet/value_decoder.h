// The values of one page of a Parquet column, one after the other, from the bytes that hold them
// (Encodings.md of https://github.com/apache/parquet-format).
//
// Used by column_reader.cc. Pure parsers of bytes from outside: a page is decoded while it is read,
// in no more memory than one value. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/parquet/parquet_types.h"

namespace muster::worker {

class ValueDecoder {
 public:
  virtual ~ValueDecoder() = default;

  // Sets integer, real or bytes of `value`, as the column's type wants it. Bytes last until the
  // next call, those of plain pages and dictionaries as long as their page. False when the page
  // holds no further value, or what it holds is none.
  virtual bool Next(ParquetValue& value) = 0;
};

// The values of a dictionary page, by their place.
using ParquetDictionary = std::vector<ParquetValue>;

// `bytes` hold the values that are there, without the levels, and outlive the decoder, as
// `dictionary` does, which may be null; the page has at most `most_values`. UNIMPLEMENTED naming an
// encoding or type that is not read; INVALID_ARGUMENT when the bytes cannot be of that encoding.
absl::StatusOr<std::unique_ptr<ValueDecoder>> MakeValueDecoder(const ParquetColumn& column,
                                                               ParquetEncoding encoding,
                                                               absl::string_view bytes,
                                                               uint64_t most_values,
                                                               const ParquetDictionary* dictionary);

}  // namespace muster::worker
