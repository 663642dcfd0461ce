#include "pathways/frontend/convert/status.h"

#include <string>

namespace pw::frontend {

tensorflow::StatusProto StatusToProto(const absl::Status& status) {
  tensorflow::StatusProto proto;
  proto.set_code(static_cast<tensorflow::error::Code>(status.code()));
  // proto3 strings must be UTF-8; messages may quote bytes that came from outside.
  std::string text(status.message());
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  proto.set_message(std::move(text));
  return proto;
}

absl::Status StatusFromProto(const tensorflow::StatusProto& proto) {
  const int code = static_cast<int>(proto.code());
  if (code == 0) return absl::OkStatus();
  if (code < 0 || code > 16) return absl::UnknownError(proto.message());
  return absl::Status(static_cast<absl::StatusCode>(code), proto.message());
}

}  // namespace pw::frontend
