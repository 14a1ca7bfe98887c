#include "worker/data/parquet/value_decoder.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/data/parquet/delta_integers.h"
#include "worker/data/parquet/run_length.h"

namespace muster::worker {
namespace {

constexpr size_t kLengthBytes = 4;  // before a plain byte array, and before levels

const char* EncodingName(ParquetEncoding encoding) {
  switch (encoding) {
    case ParquetEncoding::kPlain:
      return "PLAIN";
    case ParquetEncoding::kPlainDictionary:
      return "PLAIN_DICTIONARY";
    case ParquetEncoding::kRle:
      return "RLE";
    case ParquetEncoding::kBitPacked:
      return "BIT_PACKED";
    case ParquetEncoding::kDeltaBinaryPacked:
      return "DELTA_BINARY_PACKED";
    case ParquetEncoding::kDeltaLengthByteArray:
      return "DELTA_LENGTH_BYTE_ARRAY";
    case ParquetEncoding::kDeltaByteArray:
      return "DELTA_BYTE_ARRAY";
    case ParquetEncoding::kRleDictionary:
      return "RLE_DICTIONARY";
    case ParquetEncoding::kByteStreamSplit:
      return "BYTE_STREAM_SPLIT";
  }
  return "";
}

// Numbers of type T, one behind the other.
template <typename T>
class PlainNumbers final : public ValueDecoder {
 public:
  explicit PlainNumbers(absl::string_view bytes) : bytes_(bytes) {}
  bool Next(ParquetValue& value) override {
    if (bytes_.size() < sizeof(T)) return false;
    T number;
    std::memcpy(&number, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
      value.real = static_cast<double>(number);
    } else {
      value.integer = static_cast<int64_t>(number);
    }
    return true;
  }

 private:
  absl::string_view bytes_;
};

class PlainBooleans final : public ValueDecoder {
 public:
  explicit PlainBooleans(absl::string_view bytes) : bytes_(bytes) {}
  bool Next(ParquetValue& value) override {
    if (at_ / 8 >= bytes_.size()) return false;
    value.integer = static_cast<int64_t>(ReadPackedBits(bytes_, at_++, 1));
    return true;
  }

 private:
  const absl::string_view bytes_;
  uint64_t at_ = 0;
};

class RunLengthBooleans final : public ValueDecoder {
 public:
  explicit RunLengthBooleans(absl::string_view runs) : runs_(runs, 1) {}
  bool Next(ParquetValue& value) override {
    uint32_t number = 0;
    if (!runs_.Next(number)) return false;
    value.integer = number & 1;
    return true;
  }

 private:
  RunLengthReader runs_;
};

// Each with its length before it.
class PlainByteArrays final : public ValueDecoder {
 public:
  explicit PlainByteArrays(absl::string_view bytes) : bytes_(bytes) {}
  bool Next(ParquetValue& value) override {
    if (bytes_.size() < kLengthBytes) return false;
    uint32_t size = 0;
    std::memcpy(&size, bytes_.data(), kLengthBytes);
    bytes_.remove_prefix(kLengthBytes);
    if (size > bytes_.size()) return false;
    value.bytes = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }

 private:
  absl::string_view bytes_;
};

class PlainFixedArrays final : public ValueDecoder {
 public:
  PlainFixedArrays(absl::string_view bytes, int64_t size)
      : bytes_(bytes), size_(static_cast<size_t>(size)) {}
  bool Next(ParquetValue& value) override {
    if (bytes_.size() < size_) return false;
    value.bytes = bytes_.substr(0, size_);
    bytes_.remove_prefix(size_);
    return true;
  }

 private:
  absl::string_view bytes_;
  const size_t size_;
};

class DictionaryValues final : public ValueDecoder {
 public:
  DictionaryValues(absl::string_view places, int bits, const ParquetDictionary& dictionary)
      : places_(places, bits), dictionary_(dictionary) {}
  bool Next(ParquetValue& value) override {
    uint32_t place = 0;
    if (!places_.Next(place) || place >= dictionary_.size()) return false;
    value = dictionary_[place];
    return true;
  }

 private:
  RunLengthReader places_;
  const ParquetDictionary& dictionary_;
};

class DeltaNumbers final : public ValueDecoder {
 public:
  DeltaNumbers(const DeltaIntegers& numbers, bool narrow) : numbers_(numbers), narrow_(narrow) {}
  bool Next(ParquetValue& value) override {
    if (!numbers_.Next(value.integer)) return false;
    // Differences of INT32 wrap around at 32 bits.
    if (narrow_) value.integer = static_cast<int32_t>(value.integer);
    return true;
  }

 private:
  DeltaIntegers numbers_;
  const bool narrow_;
};

// All lengths first, then all bytes.
class DeltaLengthArrays final : public ValueDecoder {
 public:
  DeltaLengthArrays(const DeltaIntegers& lengths, absl::string_view bytes)
      : lengths_(lengths), bytes_(bytes) {}
  bool Next(ParquetValue& value) override {
    int64_t size = 0;
    if (!lengths_.Next(size) || size < 0 || static_cast<uint64_t>(size) > bytes_.size()) {
      return false;
    }
    value.bytes = bytes_.substr(0, static_cast<size_t>(size));
    bytes_.remove_prefix(static_cast<size_t>(size));
    return true;
  }

 private:
  DeltaIntegers lengths_;
  absl::string_view bytes_;
};

// Of each what it has in common with the one before, and what follows that.
class DeltaByteArrays final : public ValueDecoder {
 public:
  // No value is longer than all bytes of its page: one that is shared by all is written once.
  DeltaByteArrays(const DeltaIntegers& prefixes, DeltaLengthArrays suffixes)
      : prefixes_(prefixes), suffixes_(std::move(suffixes)) {}
  bool Next(ParquetValue& value) override {
    int64_t prefix = 0;
    ParquetValue suffix;
    if (!prefixes_.Next(prefix) || prefix < 0 || static_cast<uint64_t>(prefix) > last_.size() ||
        !suffixes_.Next(suffix)) {
      return false;
    }
    last_.resize(static_cast<size_t>(prefix));
    last_.append(suffix.bytes.data(), suffix.bytes.size());
    value.bytes = last_;
    return true;
  }

 private:
  DeltaIntegers prefixes_;
  DeltaLengthArrays suffixes_;
  std::string last_;
};

using Decoder = std::unique_ptr<ValueDecoder>;

absl::StatusOr<Decoder> PlainDecoder(const ParquetColumn& column, absl::string_view bytes) {
  switch (column.type) {
    case ParquetType::kBoolean:
      return std::make_unique<PlainBooleans>(bytes);
    case ParquetType::kInt32:
      return std::make_unique<PlainNumbers<int32_t>>(bytes);
    case ParquetType::kInt64:
      return std::make_unique<PlainNumbers<int64_t>>(bytes);
    case ParquetType::kFloat:
      return std::make_unique<PlainNumbers<float>>(bytes);
    case ParquetType::kDouble:
      return std::make_unique<PlainNumbers<double>>(bytes);
    case ParquetType::kByteArray:
      return std::make_unique<PlainByteArrays>(bytes);
    case ParquetType::kFixedLenByteArray:
      return std::make_unique<PlainFixedArrays>(bytes, column.type_length);
    case ParquetType::kInt96:
      break;
  }
  return absl::UnimplementedError("values of type INT96 are not read");
}

absl::StatusOr<Decoder> DictionaryDecoder(absl::string_view bytes,
                                          const ParquetDictionary* dictionary) {
  if (dictionary == nullptr) {
    return absl::InvalidArgumentError("its values are places in a dictionary that is not there");
  }
  const int bits = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  if (bits > RunLengthReader::kMostBits) {
    return absl::InvalidArgumentError(absl::StrCat("its places have ", bits, " bits"));
  }
  if (!bytes.empty()) bytes.remove_prefix(1);
  return std::make_unique<DictionaryValues>(bytes, bits, *dictionary);
}

absl::StatusOr<DeltaIntegers> Deltas(absl::string_view bytes, uint64_t most_values) {
  DeltaIntegers numbers(bytes);
  if (!numbers.ok() || numbers.count() > most_values) {
    return absl::InvalidArgumentError("its differences have no header");
  }
  return numbers;
}

absl::StatusOr<DeltaLengthArrays> LengthArrays(absl::string_view bytes, uint64_t most_values) {
  const auto lengths = Deltas(bytes, most_values);
  if (!lengths.ok()) return lengths.status();
  const uint64_t end = DeltaIntegers(*lengths).End();
  if (end > bytes.size()) return absl::InvalidArgumentError("its lengths are cut off");
  return DeltaLengthArrays(*lengths, bytes.substr(end));
}

absl::StatusOr<Decoder> DeltaDecoder(const ParquetColumn& column, ParquetEncoding encoding,
                                     absl::string_view bytes, uint64_t most_values) {
  // A page without any value may have no bytes at all.
  if (bytes.empty()) return std::make_unique<PlainByteArrays>(bytes);
  if (encoding == ParquetEncoding::kDeltaLengthByteArray) {
    auto arrays = LengthArrays(bytes, most_values);
    if (!arrays.ok()) return arrays.status();
    return std::make_unique<DeltaLengthArrays>(*std::move(arrays));
  }
  const auto numbers = Deltas(bytes, most_values);
  if (!numbers.ok()) return numbers.status();
  if (encoding == ParquetEncoding::kDeltaBinaryPacked) {
    return std::make_unique<DeltaNumbers>(*numbers, column.type == ParquetType::kInt32);
  }
  const uint64_t end = DeltaIntegers(*numbers).End();
  if (end > bytes.size()) return absl::InvalidArgumentError("its prefixes are cut off");
  auto suffixes = LengthArrays(bytes.substr(end), most_values);
  if (!suffixes.ok()) return suffixes.status();
  return std::make_unique<DeltaByteArrays>(*numbers, *std::move(suffixes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ValueDecoder>> MakeValueDecoder(
    const ParquetColumn& column, ParquetEncoding encoding, absl::string_view bytes,
    uint64_t most_values, const ParquetDictionary* dictionary) {
  const ParquetType type = column.type;
  const bool arrays = type == ParquetType::kByteArray || type == ParquetType::kFixedLenByteArray;
  const bool whole = type == ParquetType::kInt32 || type == ParquetType::kInt64;
  switch (encoding) {
    case ParquetEncoding::kPlain:
      return PlainDecoder(column, bytes);
    case ParquetEncoding::kPlainDictionary:
    case ParquetEncoding::kRleDictionary:
      return DictionaryDecoder(bytes, dictionary);
    case ParquetEncoding::kRle: {
      if (type != ParquetType::kBoolean) break;
      uint32_t size = 0;
      if (bytes.size() >= kLengthBytes) std::memcpy(&size, bytes.data(), kLengthBytes);
      if (bytes.size() < kLengthBytes || size > bytes.size() - kLengthBytes) {
        return absl::InvalidArgumentError("its runs are cut off");
      }
      return std::make_unique<RunLengthBooleans>(bytes.substr(kLengthBytes, size));
    }
    case ParquetEncoding::kDeltaBinaryPacked:
      if (whole) return DeltaDecoder(column, encoding, bytes, most_values);
      break;
    case ParquetEncoding::kDeltaLengthByteArray:
      if (type == ParquetType::kByteArray) {
        return DeltaDecoder(column, encoding, bytes, most_values);
      }
      break;
    case ParquetEncoding::kDeltaByteArray:
      if (arrays) return DeltaDecoder(column, encoding, bytes, most_values);
      break;
    case ParquetEncoding::kBitPacked:
    case ParquetEncoding::kByteStreamSplit:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("encoding ", EncodingName(encoding), " of ",
                                               ParquetTypeName(type), " is not read"));
}

}  // namespace muster::worker
