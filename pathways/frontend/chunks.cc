#include "pathways/frontend/chunks.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstring>

#include "pathways/base/status_macros.h"

namespace pw::frontend {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr uint32_t kDataTag = 1 << 3 | 2;  // field 1, length-delimited

void DropBytes(void* bytes) { delete static_cast<Bytes*>(bytes); }

}  // namespace

absl::StatusOr<size_t> FindChunk(grpc::ByteBuffer* message, size_t room, std::vector<iovec>* pieces) {
  grpc::ProtoBufferReader reader(message);
  if (!reader.status().ok()) return absl::InvalidArgumentError("a chunk cannot be read");
  CodedInputStream input(&reader);
  size_t found = 0;
  while (uint32_t tag = input.ReadTag()) {
    if (tag != kDataTag) {
      if (!WireFormatLite::SkipField(&input, tag)) return absl::InvalidArgumentError("a chunk does not parse");
      continue;
    }
    uint32_t size;
    if (!input.ReadVarint32(&size)) return absl::InvalidArgumentError("a chunk does not parse");
    if (size > room - found) return absl::InvalidArgumentError("more data arrived than was announced");
    found += size;
    while (size > 0) {
      const void* data;
      int here;
      if (!input.GetDirectBufferPointer(&data, &here) || here <= 0) return absl::InvalidArgumentError("a chunk is cut short");
      const int take = static_cast<int>(std::min<uint32_t>(size, static_cast<uint32_t>(here)));
      pieces->push_back({const_cast<void*>(data), static_cast<size_t>(take)});
      input.Skip(take);
      size -= static_cast<uint32_t>(take);
    }
  }
  if (!input.ConsumedEntireMessage()) return absl::InvalidArgumentError("a chunk does not parse");
  return found;
}

absl::StatusOr<size_t> TakeChunk(grpc::ByteBuffer* message, uint8_t* out, size_t room) {
  std::vector<iovec> pieces;
  PW_ASSIGN_OR_RETURN(const size_t size, FindChunk(message, room, &pieces));
  for (const iovec& piece : pieces) {
    std::memcpy(out, piece.iov_base, piece.iov_len);
    out += piece.iov_len;
  }
  return size;
}

grpc::ByteBuffer MakeChunk(Bytes data) {
  uint8_t header[16];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(kDataTag, header);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(data.size()), end);
  const size_t size = data.size();
  void* memory = const_cast<uint8_t*>(data.data());
  grpc::Slice slices[2] = {grpc::Slice(header, end - header),
                           size == 0 ? grpc::Slice() : grpc::Slice(memory, size, DropBytes, new Bytes(std::move(data)))};
  return grpc::ByteBuffer(slices, size == 0 ? 1 : 2);
}

}  // namespace pw::frontend
