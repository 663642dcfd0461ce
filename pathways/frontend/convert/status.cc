#include "pathways/frontend/convert/status.h"

#include <string>

#include "pathways/base/status_code.h"

namespace pw::frontend {

tensorflow::StatusProto StatusToProto(const absl::Status& status) {
  tensorflow::StatusProto proto;
  proto.set_code(static_cast<tensorflow::error::Code>(status.code()));
  // proto3 strings must be UTF-8; messages may quote arbitrary bytes.
  std::string text(status.message());
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  proto.set_message(std::move(text));
  return proto;
}

absl::Status StatusFromProto(const tensorflow::StatusProto& proto) {
  return StatusFrom(static_cast<int>(proto.code()), proto.message());
}

}  // namespace pw::frontend
