#include "pathways/frontend/chunks.h"

#include <grpcpp/impl/grpc_library.h>
#include <gtest/gtest.h>

#include <string>

namespace pw::frontend {
namespace {

// Initializes gRPC, as a channel or a server would.
const grpc::internal::GrpcLibraryInitializer grpc_is_there;

grpc::ByteBuffer Message(const std::string& bytes) {
  const grpc::Slice slices[] = {grpc::Slice(bytes.substr(0, bytes.size() / 2)), grpc::Slice(bytes.substr(bytes.size() / 2))};
  return grpc::ByteBuffer(slices, 2);
}

absl::StatusOr<std::string> Taken(grpc::ByteBuffer message, size_t room) {
  std::string out(room, '.');
  const absl::StatusOr<size_t> size = TakeChunk(&message, reinterpret_cast<uint8_t*>(out.data()), room);
  if (!size.ok()) return size.status();
  return out.substr(0, *size);
}

TEST(Chunks, WhatIsMadeIsTaken) {
  for (const std::string& data : {std::string(), std::string("x"), std::string(300, 'y'), std::string(1 << 20, 'z')})
    EXPECT_EQ(*Taken(MakeChunk(Bytes::Copy(data)), data.size()), data);
}

TEST(Chunks, AnyMessageOfThatFormIsRead) {
  EXPECT_EQ(*Taken(Message(""), 0), "");
  EXPECT_EQ(*Taken(Message("\x0a\x03"
                           "abc"
                           "\x10\x05"
                           "\x0a\x02"
                           "de"),
                   5),
            "abcde")
      << "other fields are passed over";
}

TEST(Chunks, WhatDoesNotFitOrDoesNotParseIsRefused) {
  EXPECT_EQ(Taken(Message("\x0a\x03"
                          "abc"),
                  2)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Taken(Message("\x0a\x03"
                          "ab"),
                  9)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Taken(Message("\x0a\xff\xff\xff\xff\xff"), 9).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Taken(Message("\x07"), 9).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Chunks, DataIsNotCopiedOnItsWay) {
  const Bytes data = Bytes::Copy(std::string(1 << 20, 'z'));
  grpc::ByteBuffer message = MakeChunk(data);
  std::vector<iovec> pieces;
  ASSERT_EQ(*FindChunk(&message, data.size(), &pieces), data.size());
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].iov_base, data.data());
}

}  // namespace
}  // namespace pw::frontend
