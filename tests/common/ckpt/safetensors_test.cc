#include "common/ckpt/safetensors.h"

#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  // A file with this header (its length in front) and so many bytes of data.
  absl::Status Open(const std::string& header, size_t data_bytes = 0) {
    std::string length(8, '\0');
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
    return OpenRaw(length + header + std::string(data_bytes, 'd'));
  }
  absl::Status OpenRaw(const std::string& bytes) {
    EXPECT_OK(WriteFileAtomically(fs_, path_, bytes));
    return SafetensorsReader::Open(fs_, path_).status();
  }

  TempDir dir_;
  FileSystem& fs_ = PosixFileSystem();
  const std::string path_ = dir_ / "x.safetensors";
};

std::string Write(const std::vector<TensorBytes>& tensors) {
  std::string file;
  EXPECT_OK(WriteSafetensors(tensors, [&](absl::string_view bytes) {
    file.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }));
  return file;
}

TEST_F(SafetensorsTest, EveryTypeAndShapeRoundTrips) {
  const std::string data(64, 'q');
  std::vector<TensorBytes> tensors;
  for (const TensorType type :
       {TensorType::kBool, TensorType::kU8, TensorType::kI8, TensorType::kBF16, TensorType::kF16,
        TensorType::kI32, TensorType::kF32, TensorType::kI64, TensorType::kF64}) {
    tensors.push_back(
        {TypeName(type), type, {2, 3}, absl::string_view(data).substr(0, 6 * ElementBytes(type))});
  }
  tensors.push_back({"scalar", TensorType::kI64, {}, absl::string_view(data).substr(0, 8)});
  tensors.push_back({"empty", TensorType::kF32, {0, 7}, ""});
  ASSERT_OK(WriteFileAtomically(fs_, path_, Write(tensors)));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(fs_, path_));
  ASSERT_EQ(reader.tensors().size(), tensors.size());
  for (const TensorBytes& tensor : tensors) {
    const TensorEntry& entry = reader.tensors().at(tensor.name);
    EXPECT_EQ(entry.type, tensor.type);
    EXPECT_EQ(entry.shape, tensor.shape);
    // Wide types come first, so each tensor stands where its elements may.
    EXPECT_EQ(entry.offset % ElementBytes(entry.type), 0u);
    std::string bytes(entry.size_bytes, '\0');
    EXPECT_OK(reader.Read(tensor.name, bytes.data()));
    EXPECT_EQ(bytes, tensor.data);
  }
}

TEST_F(SafetensorsTest, AFileWithoutTensorsIsAFile) {
  EXPECT_OK(OpenRaw(Write({})));
  EXPECT_OK(Open("{}"));
}

TEST_F(SafetensorsTest, TheBytesAreThoseOfTheFormat) {
  EXPECT_EQ(
      Write({{"a", TensorType::kU8, {2}, "xy"}}),
      std::string("\x58\0\0\0\0\0\0\0", 8) +
          R"({"__metadata__":{"format":"pt"},"a":{"data_offsets":[0,2],"dtype":"U8","shape":[2]}})"
          "    xy");
}

TEST_F(SafetensorsTest, WhatCannotBeWrittenIsNamed) {
  const auto sink = [](absl::string_view) { return absl::OkStatus(); };
  EXPECT_THAT(WriteSafetensors({{"w", TensorType::kF32, {2}, "short"}}, sink),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("tensor w")));
  EXPECT_THAT(
      WriteSafetensors({{"w", TensorType::kU8, {1}, "x"}, {"w", TensorType::kU8, {1}, "x"}}, sink),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("tensor w: the name is taken")));
  EXPECT_THAT(WriteSafetensors({{"__metadata__", TensorType::kU8, {1}, "x"}}, sink),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("taken")));
}

TEST_F(SafetensorsTest, TheSinksErrorComesBack) {
  EXPECT_THAT(
      WriteSafetensors({}, [](absl::string_view) { return absl::ResourceExhaustedError("full"); }),
      StatusIs(StatusCode::kResourceExhausted, HasSubstr("full")));
}

TEST_F(SafetensorsTest, AHeaderThatClaimsTooMuchIsRefusedBeforeMemoryIsTaken) {
  EXPECT_THAT(OpenRaw(""), StatusIs(StatusCode::kDataLoss, HasSubstr("too short")));
  EXPECT_THAT(OpenRaw("1234567"), StatusIs(StatusCode::kDataLoss, HasSubstr("too short")));
  EXPECT_THAT(OpenRaw(std::string(8, '\xff')),
              StatusIs(StatusCode::kDataLoss, HasSubstr("claims")));
  EXPECT_THAT(OpenRaw(std::string("\x09\0\0\0\0\0\0\0", 8) + "{}"),
              StatusIs(StatusCode::kDataLoss, HasSubstr("claims 9 bytes")));
}

TEST_F(SafetensorsTest, ABrokenHeaderIsDataLossAndTheTensorIsNamed) {
  EXPECT_THAT(Open("nonsense"), StatusIs(StatusCode::kDataLoss, HasSubstr(path_)));
  EXPECT_THAT(Open("[]"), StatusIs(StatusCode::kDataLoss, HasSubstr("not a JSON object")));
  const std::vector<std::string> entries = {
      R"(1)",
      R"({})",
      R"({"dtype":"U8","shape":[1]})",
      R"({"dtype":1,"shape":[1],"data_offsets":[0,1]})",
      R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})",
      R"({"dtype":"U8","shape":[1],"data_offsets":[0]})",
      R"({"dtype":"U8","shape":[1],"data_offsets":[1,0]})",
      R"({"dtype":"U8","shape":[1],"data_offsets":[-1,0]})",
      R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})",
      R"({"dtype":"U8","shape":[2],"data_offsets":[0,1]})",
      R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})",
      R"({"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})",
      R"({"dtype":"F64","shape":[4611686018427387904,8],"data_offsets":[0,0]})",
      R"({"dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[0,0]})"};
  for (const std::string& entry : entries) {
    EXPECT_THAT(Open("{\"w\":" + entry + "}", 1),
                StatusIs(StatusCode::kDataLoss, AllOf(HasSubstr("tensor w"), HasSubstr(path_))))
        << entry;
  }
}

TEST_F(SafetensorsTest, OverlapsAndGapsAreRefused) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[)" + a +
           R"(]},"b":{"dtype":"U8","shape":[2],"data_offsets":[)" + b + "]}}";
  };
  EXPECT_OK(Open(two("0,2", "2,4"), 4));
  EXPECT_OK(Open(two("2,4", "0,2"), 4));
  EXPECT_THAT(Open(two("0,2", "1,3"), 3), StatusIs(StatusCode::kDataLoss, HasSubstr("tensor b")));
  EXPECT_THAT(Open(two("0,2", "3,5"), 5), StatusIs(StatusCode::kDataLoss, HasSubstr("gap")));
  EXPECT_THAT(Open(two("0,2", "2,4"), 5), StatusIs(StatusCode::kDataLoss, HasSubstr("no tensor")));
}

TEST_F(SafetensorsTest, AnUnknownTypeIsNoCorruption) {
  EXPECT_THAT(Open(R"({"w":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("F8_E4M3")));
}

TEST_F(SafetensorsTest, AnUnknownTensorIsNotFound) {
  ASSERT_OK(OpenRaw(Write({})));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(fs_, path_));
  EXPECT_THAT(reader.Read("w", nullptr), StatusIs(StatusCode::kNotFound, HasSubstr("tensor w")));
}

TEST_F(SafetensorsTest, AFileCutAfterItWasOpenedIsDataLoss) {
  ASSERT_OK(OpenRaw(Write({{"w", TensorType::kU8, {4}, "wxyz"}})));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(fs_, path_));
  ASSERT_OK_AND_ASSIGN(const std::string bytes, fs_.ReadFile(path_, 1 << 20));
  ASSERT_OK(WriteFileAtomically(fs_, path_, bytes.substr(0, bytes.size() - 1)));
  char buffer[4];
  EXPECT_THAT(reader.Read("w", buffer), StatusIs(StatusCode::kDataLoss, HasSubstr("cut short")));
}

TEST_F(SafetensorsTest, AnyCutOfAFileIsRefused) {
  const std::string file =
      Write({{"w", TensorType::kF32, {2}, "12345678"}, {"b", TensorType::kU8, {1}, "x"}});
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(OpenRaw(file.substr(0, size)), StatusIs(StatusCode::kDataLoss)) << size;
  }
}

}  // namespace
}  // namespace muster
